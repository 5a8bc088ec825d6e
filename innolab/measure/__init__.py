"""Measure: a plan's trials, one after the other, recorded one by one."""

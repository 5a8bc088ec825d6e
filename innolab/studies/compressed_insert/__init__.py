"""Seed S1, study C."""

"""Seed S1, study D."""

"""Seed S3, study F."""

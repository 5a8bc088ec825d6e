"""Replication: reads spread over replicas, a source that fails, services divided (seed S1)."""

"""The study access-paths: a scan, lookups through an index, and where each is cheaper."""

"""Check a report without a server."""

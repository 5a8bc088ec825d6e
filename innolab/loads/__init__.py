"""What is done to a running server, and what it cost."""

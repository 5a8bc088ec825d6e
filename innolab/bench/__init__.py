"""What is done to a running server or a disk, and what it cost."""

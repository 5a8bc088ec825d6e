"""The buffer pool of a server that runs: which size would be enough."""

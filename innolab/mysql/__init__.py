"""MySQL: builds, running servers, their counters, and datasets."""

"""Re-runs published studies of MySQL/InnoDB storage and memory, and judges their claims."""

__version__ = "0.2.0"

"""Many hosts that measure one plan."""

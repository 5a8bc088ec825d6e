"""Pure analysis: statistics, checks, claims, models."""

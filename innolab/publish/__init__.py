"""What leaves a report: a figure's kit, a deposit."""

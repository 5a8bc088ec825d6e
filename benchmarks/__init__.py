"""Measures innolab itself, as ratios taken side by side in one run."""

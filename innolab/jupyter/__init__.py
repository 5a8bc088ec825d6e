"""A notebook that somebody works in: what it opens, and how its runs are looked at."""

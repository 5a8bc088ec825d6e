"""Published tables of other people: read, ranked, judged."""

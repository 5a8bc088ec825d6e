"""Two reports of a study or more: how they differ, and what they say together."""

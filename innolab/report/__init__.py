"""Reports: their folders, their making, their checking, their comparing and their index."""

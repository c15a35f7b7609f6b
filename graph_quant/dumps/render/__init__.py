"""A graph for people and for other programs."""

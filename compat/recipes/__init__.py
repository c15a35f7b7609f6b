"""Runs the public recipes' unchanged model code on tiny models with random weights."""

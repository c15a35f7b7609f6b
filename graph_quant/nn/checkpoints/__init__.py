"""Quantised checkpoints that people have, put into this package's modules."""

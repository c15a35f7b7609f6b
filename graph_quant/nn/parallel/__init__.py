"""Quantised modules of which every rank has a part."""

"""Operators that are of no model in particular: products, casts, views and their kin."""

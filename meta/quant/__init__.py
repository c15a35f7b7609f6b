"""Quantisation: from numbers to integers and back."""

"""Operators that communicate: what may be passed, and what comes back."""

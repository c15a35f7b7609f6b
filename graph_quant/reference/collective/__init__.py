"""Collectives, and operators that fuse communication with computation."""

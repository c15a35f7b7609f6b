"""Readers of dump files."""

"""Placeholder."""


def register() -> None:
    """Nothing yet."""

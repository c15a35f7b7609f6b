"""Explains errors of real devices: codes, operators and arguments in a text become rules and fixes."""

from .api import Explanation, explain

__all__ = ["Explanation", "explain"]

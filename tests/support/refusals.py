"""Distinguishes errors about values, which need data, from errors about a call's metadata."""

import re

# A position in an index, or a word that speaks of the values in it.
_OF_VALUES = re.compile(r": \w+\[\d+\]|: the (last|sum|values?) ")


def is_of_values(outcome: object) -> bool:
    return isinstance(outcome, str) and _OF_VALUES.search(outcome) is not None


def is_of_eager_execution(outcome: object) -> bool:
    """A mixture of dtypes that a graph converts."""
    return isinstance(outcome, str) and " when run eagerly" in outcome

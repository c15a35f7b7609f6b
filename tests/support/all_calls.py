"""The calls of all operators, collected from the tables in `operators/<family>`.

A table defines for its operators:

`GOOD`          valid calls
`WRONG`         for every rule a call that breaks it
`WRONG_EAGERLY` calls that are refused eagerly, and work in a graph because of a cast
`WRONG_VALUES`  calls with an index value that is refused where data is available
`WRONG_FORMATS` calls that are refused on an NPU because of the storage format of an argument
`GOLDEN`        functions whose GE graph is stored as text
`STATIC`        those of them that are valid in static graphs only
`CALLS`         by operator, a strategy for calls near the limits of the rules
`STATEMENTS`    by operator, a `Statement`: the operator in NumPy, and valid calls with data

Of operators that Ascend 950 has as well, where it differs from A2 and A3:

`GOOD_950`       calls that it alone takes
`WRONG_950`      calls that it alone refuses, one for every rule of its own
`STATEMENTS_950` statements of what it computes otherwise
"""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import operators as tables
from hypothesis import strategies as st

from support.call_table import INT4, Call, Case, Statement, overload, packed

__all__ = [
    "CALLS",
    "GOLDEN",
    "GOOD",
    "GOOD_950",
    "INT4",
    "STATEMENTS",
    "STATEMENTS_950",
    "STATIC",
    "WRONG",
    "WRONG_950",
    "WRONG_EAGERLY",
    "WRONG_FORMATS",
    "WRONG_VALUES",
    "Call",
    "overload",
    "packed",
]


def _tables() -> Iterator[ModuleType]:
    for family in pkgutil.iter_modules(tables.__path__, f"{tables.__name__}."):
        if family.ispkg:
            for table in pkgutil.iter_modules(importlib.import_module(family.name).__path__, f"{family.name}."):
                if not table.name.rpartition(".")[2].startswith("test_"):
                    yield importlib.import_module(table.name)


_TABLES = list(_tables())


def _all(name: str) -> list[Call]:
    return [call for table in _TABLES for call in getattr(table, name, [])]


def _merged(name: str) -> dict[str, Any]:
    return {key: value for table in _TABLES for key, value in getattr(table, name, {}).items()}


def names_in(path: Path) -> set[str]:
    """The operators and golden graphs of the table in a file."""
    tables = [table for table in _TABLES if table.__file__ == str(path)]
    calls = [call for table in tables for kind in _KINDS for call in getattr(table, kind, ())]
    keyed = ("GOLDEN", "CALLS", "STATEMENTS", "STATEMENTS_950")
    keys = [key for table in tables for kind in keyed for key in getattr(table, kind, ())]
    return {call.op for call in calls} | set(keys)


_KINDS = ("GOOD", "WRONG", "WRONG_EAGERLY", "WRONG_VALUES", "WRONG_FORMATS", "GOOD_950", "WRONG_950")
GOOD = _all("GOOD")
WRONG = _all("WRONG")
WRONG_EAGERLY = _all("WRONG_EAGERLY")
WRONG_VALUES = _all("WRONG_VALUES")
WRONG_FORMATS = _all("WRONG_FORMATS")
GOLDEN: dict[str, Case] = _merged("GOLDEN")
STATIC: set[str] = {name for table in _TABLES for name in getattr(table, "STATIC", ())}
CALLS: dict[str, st.SearchStrategy[Any]] = _merged("CALLS")
STATEMENTS: dict[str, Statement] = _merged("STATEMENTS")
GOOD_950 = _all("GOOD_950")
WRONG_950 = _all("WRONG_950")
STATEMENTS_950: dict[str, Statement] = _merged("STATEMENTS_950")

"""The calls of every operator, gathered from the tables in `support/operators`.

`GOOD` are calls that the documents allow, `WRONG` one call for every rule, that breaks it, `WRONG_VALUES` calls whose
index holds a value that is refused where data is, and `GOLDEN` functions whose GE graph is kept as text.
"""

import importlib
import pkgutil

import support.operators as tables
from support.call import INT4, Call, Case, packed

__all__ = ["GOLDEN", "GOOD", "INT4", "WRONG", "WRONG_VALUES", "Call", "packed"]

_OPERATORS = [
    importlib.import_module(f"{tables.__name__}.{found.name}") for found in pkgutil.iter_modules(tables.__path__)
]
GOOD: list[Call] = [call for operator in _OPERATORS for call in operator.GOOD]
WRONG: list[Call] = [call for operator in _OPERATORS for call in operator.WRONG]
WRONG_VALUES: list[Call] = [call for operator in _OPERATORS for call in getattr(operator, "WRONG_VALUES", [])]
GOLDEN: dict[str, Case] = {name: case for operator in _OPERATORS for name, case in operator.GOLDEN.items()}

"""Results that are not tensors: numbers, strings, and the fields of objects."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils import _pytree as pytree

NOTHING = type("Nothing", (), {"__repr__": lambda _: "nothing"})()
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_NOT_SEARCHED = (Tensor, nn.Module, ModuleType, FunctionType, type)  # not searched for results
_DEEPEST = 8


def leaves(value: Any) -> dict[str, Any]:
    """All leaves of a value by path, including the fields of objects that are not pytrees."""
    return dict(_leaves(value, "", _DEEPEST))


def _leaves(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    for inner, leaf in pytree.tree_flatten_with_path(value)[0]:
        leaf_path = path + pytree.keystr(inner)
        if depth and _is_searched(leaf):
            for name, field in vars(leaf).items():
                yield from _leaves(field, f"{leaf_path}.{name}", depth - 1)
        else:
            yield leaf_path, leaf


def _is_searched(leaf: Any) -> bool:
    return not isinstance(leaf, (*_PLAIN, *_NOT_SEARCHED)) and isinstance(getattr(leaf, "__dict__", None), dict)


def are_equal(one: Any, other: Any) -> bool:
    """Whether two values other than tensors are equal; values of unknown types count as equal."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, float) and isinstance(other, float):
        return (one == other and math.copysign(1, one) == math.copysign(1, other)) or (one != one and other != other)
    comparable = [value is NOTHING or isinstance(value, (*_PLAIN, np.ndarray)) for value in (one, other)]
    if not any(comparable):
        return True
    return all(comparable) and type(one) is type(other) and bool(one == other)

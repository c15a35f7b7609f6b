"""What a call gives beside tensors: numbers, texts, and the fields of objects."""

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
_CLOSED = (Tensor, nn.Module, ModuleType, FunctionType, type)  # what holds no results, or is one
_DEEPEST = 8


def leaves(value: Any) -> dict[str, Any]:
    """Everything that a value holds, by its path; also what stands in fields of objects that PyTorch does not know."""
    return dict(_leaves(value, "", _DEEPEST))


def _leaves(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    for inner, leaf in pytree.tree_flatten_with_path(value)[0]:
        place = path + pytree.keystr(inner)
        if depth and _is_open(leaf):
            for name, field in vars(leaf).items():
                yield from _leaves(field, f"{place}.{name}", depth - 1)
        else:
            yield place, leaf


def _is_open(leaf: Any) -> bool:
    return not isinstance(leaf, (*_PLAIN, *_CLOSED)) and isinstance(getattr(leaf, "__dict__", None), dict)


def are_equal(one: Any, other: Any) -> bool:
    """Whether two values that are no tensors are the same; of those that nobody can compare, nothing is said."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, float) and isinstance(other, float):
        return (one == other and math.copysign(1, one) == math.copysign(1, other)) or (one != one and other != other)
    known = [each is NOTHING or isinstance(each, (*_PLAIN, np.ndarray)) for each in (one, other)]
    if not any(known):
        return True
    return all(known) and type(one) is type(other) and bool(one == other)

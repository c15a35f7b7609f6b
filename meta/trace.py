"""Plans of calls that a trace asks for again: Dynamo, AOTAutograd and the lowering infer the same call in turn."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

Planned = TypeVar("Planned")

_plans: WeakKeyDictionary[FakeTensorMode, dict[Hashable, Any]] = WeakKeyDictionary()


def remembered(operator: str, values: Sequence[Any], make: Callable[[Sequence[Any]], Planned]) -> Planned:
    """What ``make(values)`` gave for a call of the same layout in the same trace, or gives now."""
    mode = _mode(values)
    if mode is None:
        return make(values)
    key = (operator, *map(_layout, values))
    plans = _plans.setdefault(mode, {})
    if key in plans:
        known: Planned = plans[key]
        return known
    plan = make(values)
    # A rule that was asked while guards are suppressed left none, and has to be asked again.
    if mode.shape_env is None or not mode.shape_env._suppress_guards_tls():
        plans[key] = plan
    return plan


def _mode(values: Sequence[Any]) -> FakeTensorMode | None:
    for value in values:
        if isinstance(value, FakeTensor):
            return value.fake_mode
        if isinstance(value, (list, tuple)) and (mode := _mode(value)) is not None:
            return mode
    return None


def _layout(value: Any) -> Hashable:
    """What a rule can see of a value, in a form that is compared without a guard."""
    if isinstance(value, torch.Tensor):
        return (value.dtype, value.device, *map(_size, value.shape), *map(_size, value.stride()))
    if isinstance(value, (list, tuple)):
        return tuple(map(_layout, value))
    return _size(value)


def _size(size: Any) -> Hashable:
    # A number and the type it came as: 1, 1.0 and True are equal but not the same to a rule.
    return size.node.expr if isinstance(size, torch.SymInt | torch.SymFloat) else (type(size), size)

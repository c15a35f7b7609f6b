"""Plans of eager calls, cached by what rules see of the arguments: rules are evaluated once per signature.

A signature holds the metadata of tensors and the values of all other arguments. A plan is kept only if the rules asked
its tensors for nothing else, and warned of nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import torch
from graph_quant import chip, mistakes
from graph_quant.formats import kept_format
from torch import Tensor
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from graph_quant.meta.operator import Plan

_MAX_SIGNATURES = 4096
_PLAIN = (int, bool, str, torch.dtype, torch.device, type(None))
# What a signature holds of a tensor, as functions that __torch_function__ is called with.
_METADATA: frozenset[Any] = frozenset(
    (
        *(getattr(Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "layout")),
        *(getattr(Tensor, name).__get__ for name in ("is_cpu", "is_meta", "itemsize", "nbytes")),
        *(Tensor.size, Tensor.dim, Tensor.stride, Tensor.is_contiguous, Tensor.numel, Tensor.element_size),
        *(Tensor.is_floating_point, Tensor.is_complex, Tensor.__len__),
    )
)


Signature = tuple[Hashable, ...]


class Signatures(set[Signature]):
    """Signatures of calls, up to a number of them."""

    def add(self, signature: Signature) -> None:
        """Add a signature; the others are dropped where there are too many."""
        if len(self) >= _MAX_SIGNATURES:
            self.clear()
        super().add(signature)


class EagerPlans:
    """The plans of one operator."""

    def __init__(self) -> None:
        self._plans: dict[Signature, Plan] = {}
        self._not_kept = Signatures()

    def plan(self, signature: Signature, values: Sequence[Any], make: Callable[[Sequence[Any]], Plan]) -> Plan:
        """Return ``make(values)``, cached."""
        known = self._plans.get(signature)
        if known is not None:
            return known
        if signature in self._not_kept:
            return make(values)
        warned = mistakes.calls
        with _Observer() as observer:
            plan = make(values)
        if not observer.sees_metadata_alone or mistakes.calls != warned or not _is_constant(plan):
            self._not_kept.add(signature)
            return plan
        if len(self._plans) >= _MAX_SIGNATURES:
            self._plans.clear()
        self._plans[signature] = plan
        return plan


class _UnknownError(Exception):
    """A signature cannot hold an argument."""


def signature_of(values: Sequence[Any]) -> Signature | None:
    """Return what rules see of the arguments of an eager call on the CPU; None for any other call."""
    try:
        return (chip.current().name, *map(_signature, values))
    except _UnknownError:
        return None


def _signature(value: Any) -> Hashable:
    kind = type(value)
    if kind is Tensor or kind is Parameter:
        if not value.is_cpu or value.layout is not torch.strided:
            raise _UnknownError
        return (value.dtype, value.size(), value.stride(), kept_format(value))
    if kind in _PLAIN:
        return (kind, value)
    if kind is float:
        return repr(value)  # zeros of both signs are equal, and NaN is not
    if kind is list or kind is tuple:
        return (kind, *map(_signature, value))
    raise _UnknownError


class _Observer(TorchFunctionMode):
    """Records whether tensors are asked for more than the metadata of signatures."""

    def __init__(self) -> None:
        super().__init__()
        self.sees_metadata_alone = True

    def __torch_function__(
        self, function: Any, _types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function not in _METADATA:
            self.sees_metadata_alone = False
        return function(*args, **(kwargs or {}))


def _is_constant(value: Any) -> bool:
    """Whether a plan holds neither tensors nor what callers could modify."""
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    if is_dataclass(value) and not isinstance(value, type):
        return all(_is_constant(getattr(value, field.name)) for field in fields(value))
    return not isinstance(value, (Tensor, list, dict, set))

"""Comparisons in the type that PyTorch compares in.

TorchAir casts the number to the tensor's type, so that integers are compared with 2 where 2.5 was asked for, or
compares tensors of two types as they are, or refuses them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from graph_quant.converters.lowering import converts, in_type
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

aten = torch.ops.aten
_NODES = {
    "eq": ge.Equal,
    "ne": ge.NotEqual,
    "lt": ge.Less,
    "le": ge.LessEqual,
    "gt": ge.Greater,
    "ge": ge.GreaterEqual,
}


def _compared_in(x: Tensor, other: Any) -> torch.dtype:
    """The type of both; truth is compared as float32, since the nodes take numbers alone."""
    known = other.meta if isinstance(other, Tensor) else other
    if isinstance(known, torch.SymInt | torch.SymFloat | torch.SymBool):
        known = known.node.pytype()
    dtype = torch.result_type(x.meta, known)
    return torch.float32 if dtype == torch.bool else dtype


def _register(name: str, make: Callable[..., Tensor]) -> None:
    packet = getattr(aten, name)

    @converts(packet.Tensor, packet.Scalar)
    def compare(x: Tensor, other: Any, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
        return make(*in_type(_compared_in(x, other), x, other))

    compare.__name__ = compare.__qualname__ = name


for _name, _make in _NODES.items():
    _register(_name, _make)

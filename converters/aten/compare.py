"""Comparisons in the promoted dtype, as in PyTorch.

TorchAir casts a scalar to the dtype of the tensor, so that integers are compared with 2 instead of 2.5. Tensors of two
dtypes it compares without promotion, or refuses.
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


def _comparison_dtype(x: Tensor, other: Any) -> torch.dtype:
    """The promoted dtype; float32 for bool, which the nodes do not support."""
    operand = other.meta if isinstance(other, Tensor) else other
    if isinstance(operand, torch.SymInt | torch.SymFloat | torch.SymBool):
        operand = operand.node.pytype()
    dtype = torch.result_type(x.meta, operand)
    return torch.float32 if dtype == torch.bool else dtype


def _register(name: str, make: Callable[..., Tensor]) -> None:
    packet = getattr(aten, name)

    @converts(packet.Tensor, packet.Scalar)
    def compare(x: Tensor, other: Any, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
        return make(*in_type(_comparison_dtype(x, other), x, other))

    compare.__name__ = compare.__qualname__ = name


for _name, _make in _NODES.items():
    _register(_name, _make)

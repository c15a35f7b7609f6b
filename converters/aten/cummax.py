"""cummax and cummin: GE has nodes for them, TorchAir has no converter."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.lowering import converts, in_type
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten


@converts(aten.cummax.default)
def cummax(x: Tensor, dim: int, meta_outputs: Any = None) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    """Cummax."""
    return _running(ge.Cummax, "dim", x, dim)


@converts(aten.cummin.default)
def cummin(x: Tensor, dim: int, meta_outputs: Any = None) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    """Cummin."""
    return _running(ge.Cummin, "axis", x, dim)


def _running(make: Any, name: str, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Values and int64 indices; the node may return indices of another integer dtype."""
    if not x.rank:
        return ge.Identity(x), ge.Const(0, dtype=DataType.DT_INT64)
    values, indices = make(x, **{name: dim % x.rank})
    return values, in_type(DataType.DT_INT64, indices)

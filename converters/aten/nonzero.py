"""nonzero and item, whose results depend on data."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.lowering import converts, in_type
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten


@converts(aten.nonzero.default)
def nonzero(x: Tensor, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """NonZero."""
    return ge.NonZero(x, transpose=False, dtype=DataType.DT_INT64)


@converts(aten._local_scalar_dense.default)
def item(x: Tensor, meta_outputs: Any = None) -> Tensor:
    """The only element: float32 for floats, int64 for integers and bool."""
    is_float = isinstance(meta_outputs._meta, torch.SymFloat | float)
    number = ge.Reshape(x, []) if x.rank else x
    wanted = DataType.DT_FLOAT if is_float else DataType.DT_INT64
    return in_type(wanted, number) if x.rank == 0 else ge.Cast(number, dst_type=wanted)

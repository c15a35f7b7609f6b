"""aten.sort.stable, which sorts rows by expert and has no converter in TorchAir, becomes Sort.

Sort works along the last dimension, and returns indices in INT32.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.lowering import converts, swapped
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor


@converts(torch.ops.aten.sort.stable)
def sort_stable(
    x: Tensor,
    *,
    stable: bool | None = None,
    dim: int = -1,
    descending: bool = False,
    meta_outputs: Any = None,  # noqa: ARG001
) -> tuple[Tensor, Tensor]:
    """The GE nodes of one call."""
    rank = x.rank
    last, axis = rank - 1, dim % max(rank, 1)
    if axis == last:
        values, indices = ge.Sort(x, axis=last, descending=descending, stable=bool(stable))
    else:
        results = ge.Sort(swapped(x, rank, axis, last), axis=last, descending=descending, stable=bool(stable))
        values, indices = (swapped(result, rank, axis, last) for result in results)
    return values, ge.Cast(indices, dst_type=DataType.DT_INT64)

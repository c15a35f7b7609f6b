"""aten.index_copy, which updates a static KV cache and has no converter in TorchAir, becomes ScatterElements."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.lowering import converts, shape_of
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@converts(torch.ops.aten.index_copy.default)
def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """ScatterElements with the index broadcast to the shape of the source."""
    rank = max(x.rank, 1)
    column = [-1 if axis == dim % rank else 1 for axis in range(rank)]
    indices = ge.BroadcastTo(ge.Reshape(index, column), shape_of(source))
    return ge.ScatterElements(x, indices, source, axis=dim)

"""Indexing by tensors: IndexByTensor, with masks converted to indices by NonZero.

TorchAir casts a mask to integers, so that x[mask] returns the first two rows repeatedly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.converters import UPSTREAM
from graph_quant.converters.lowering import converts, in_type
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten
_MASKS = (DataType.DT_BOOL, DataType.DT_UINT8)


@converts(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(x: Tensor, indices: Sequence[Tensor | None], meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """The GE nodes of one call."""
    positions: list[Tensor] = []
    chosen: list[int] = []
    for argument in indices:
        own_positions = [] if argument is None else _to_indices(argument)
        positions += own_positions
        chosen += [1] * len(own_positions) or [0]
    return ge.IndexByTensor(x, positions, indices_mask=chosen)


def _to_indices(argument: Tensor) -> list[Tensor]:
    """int64 indices; for a mask, one index tensor for each of its dimensions."""
    if argument.dtype not in _MASKS:
        return [in_type(DataType.DT_INT64, argument)]
    coordinates = ge.NonZero(argument, transpose=True, dtype=DataType.DT_INT64)
    return [ge.GatherV2(coordinates, ge.Const(axis, dtype=DataType.DT_INT64), [0]) for axis in range(argument.rank)]


@converts(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    *others: Any,
    **kwargs: Any,
) -> Any:
    """TorchAir's node with an explicit mode: without one ATen sums rows, and TorchAir averages them."""
    upstream = UPSTREAM[aten._embedding_bag.default]
    return upstream(weight, indices, offsets, scale_grad_by_freq, mode, *others, **kwargs)

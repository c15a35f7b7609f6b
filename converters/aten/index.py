"""Indexing by tensors: places are IndexByTensor's, and masks the places that NonZero finds in them.

TorchAir makes integers of a mask, so that x[mask] gives the first two rows over and over.
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
    places: list[Tensor] = []
    chosen: list[int] = []
    for given in indices:
        found = [] if given is None else _places(given)
        places += found
        chosen += [1] * len(found) or [0]
    return ge.IndexByTensor(x, places, indices_mask=chosen)


def _places(given: Tensor) -> list[Tensor]:
    """One list of places for each dimension of a mask."""
    if given.dtype not in _MASKS:
        return [in_type(DataType.DT_INT64, given)]
    found = ge.NonZero(given, transpose=True, dtype=DataType.DT_INT64)
    return [ge.GatherV2(found, ge.Const(axis, dtype=DataType.DT_INT64), [0]) for axis in range(given.rank)]


@converts(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
    meta_outputs: Any = None,
) -> Any:
    """TorchAir's node, told the mode: where it is left out ATen adds rows, and TorchAir averages them."""
    given = (scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx)
    return UPSTREAM[aten._embedding_bag.default](weight, indices, offsets, *given, meta_outputs=meta_outputs)

"""Elements that differ become UniqueWithCountsAndSorting; those that differ from the one before UniqueConsecutive."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.lowering import converts, in_type, shape_of
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten
# How UniqueConsecutive is told of all elements.
_FLAT = 1000


def _asked(places: Tensor, is_asked: bool, shape: Any = None) -> Tensor:
    """Places or counts as int64, and nothing where they are not asked for."""
    if not is_asked:
        return ge.Fill([0], ge.Const(0, dtype=DataType.DT_INT64))
    found = in_type(DataType.DT_INT64, places)
    return found if shape is None else ge.Reshape(found, shape)


@converts(aten._unique2.default)
def unique(
    x: Tensor,
    sorted: bool = True,  # noqa: A002
    return_inverse: bool = False,
    return_counts: bool = False,
    meta_outputs: Any = None,  # noqa: ARG001
) -> tuple[Tensor, Tensor, Tensor]:
    """UniqueWithCountsAndSorting of all elements."""
    values, places, counts = ge.UniqueWithCountsAndSorting(
        ge.Reshape(x, [-1]), return_inverse=return_inverse, return_counts=return_counts, sorted=sorted
    )
    return values, _asked(places, return_inverse, shape_of(x)), _asked(counts, return_counts)


@converts(aten.unique_consecutive.default)
def unique_consecutive(
    x: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
    meta_outputs: Any = None,  # noqa: ARG001
) -> tuple[Tensor, Tensor, Tensor]:
    """UniqueConsecutive, of all elements or of slices."""
    axis = _FLAT if dim is None else dim % x.rank
    values, places, counts = ge.UniqueConsecutive(x, return_idx=return_inverse, return_counts=return_counts, axis=axis)
    shape = shape_of(x) if dim is None else None
    return values, _asked(places, return_inverse, shape), _asked(counts, return_counts)

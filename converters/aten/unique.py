"""unique becomes UniqueWithCountsAndSorting, unique_consecutive becomes UniqueConsecutive."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.lowering import converts, in_type, shape_of
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten
# The axis that means the flattened tensor to UniqueConsecutive.
_FLAT = 1000


def _requested(values: Tensor, is_requested: bool, shape: Any = None) -> Tensor:
    """An optional result as int64; empty where it is not requested."""
    if not is_requested:
        return ge.Fill([0], ge.Const(0, dtype=DataType.DT_INT64))
    converted = in_type(DataType.DT_INT64, values)
    return converted if shape is None else ge.Reshape(converted, shape)


@converts(aten._unique2.default)
def unique(
    x: Tensor,
    sorted: bool = True,  # noqa: A002
    return_inverse: bool = False,
    return_counts: bool = False,
    meta_outputs: Any = None,  # noqa: ARG001
) -> tuple[Tensor, Tensor, Tensor]:
    """UniqueWithCountsAndSorting of all elements."""
    values, inverse, counts = ge.UniqueWithCountsAndSorting(
        ge.Reshape(x, [-1]), return_inverse=return_inverse, return_counts=return_counts, sorted=sorted
    )
    return values, _requested(inverse, return_inverse, shape_of(x)), _requested(counts, return_counts)


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
    values, inverse, counts = ge.UniqueConsecutive(x, return_idx=return_inverse, return_counts=return_counts, axis=axis)
    shape = shape_of(x) if dim is None else None
    return values, _requested(inverse, return_inverse, shape), _requested(counts, return_counts)

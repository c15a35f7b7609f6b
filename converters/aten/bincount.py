"""bincount, bucketize, repeat_interleave, masked_select and cumprod."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.lowering import converts, in_type, taken_in
from graph_quant.ge import TO_ATTRIBUTE, ge_dtype_name
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten


@converts(aten.bincount.default)
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0, meta_outputs: Any = None) -> Tensor:
    """Bincount with as many bins as the largest element needs, and at least ``minlength``."""
    numbers = in_type(DataType.DT_INT32, x)
    # The largest element plus one; 0 where there are no elements.
    largest = ge.ReduceMax(ge.ConcatV2([numbers, ge.Const([-1], dtype=DataType.DT_INT32)], 0, N=2), [0])
    bins = ge.Maximum(ge.Add(largest, ge.Const(1, dtype=DataType.DT_INT32)), in_type(DataType.DT_INT32, minlength))
    if weights is None:
        counted = ge.Bincount(numbers, bins, ge.Fill([0], ge.Const(0, dtype=DataType.DT_INT32)))
        return ge.Cast(counted, dst_type=DataType.DT_INT64)
    if x.meta.size(0) == 0:  # ATen returns counts then, not sums of weights
        return ge.Fill([minlength], ge.Const(0, dtype=DataType.DT_INT64))
    return ge.Bincount(numbers, bins, in_type(meta_outputs.dtype, weights))


@converts(aten.bucketize.Tensor)
def bucketize(
    x: Tensor,
    boundaries: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    meta_outputs: Any = None,  # noqa: ARG001
) -> Tensor:
    """SearchSorted among the boundaries."""
    common = torch.promote_types(x.meta.dtype, boundaries.meta.dtype)
    inner = taken_in("SearchSorted", TO_ATTRIBUTE[ge_dtype_name(common)])
    dtype = DataType.DT_INT32 if out_int32 else DataType.DT_INT64
    return ge.SearchSorted(in_type(inner, boundaries), in_type(inner, x), None, dtype=dtype, right=right)


@converts(aten.repeat_interleave.Tensor)
def repeat_interleave(repeats: Tensor, *, output_size: Any = None, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """Each index as often as it is repeated: the first whose cumulative sum of repeats exceeds the output position."""
    ends = ge.Cumsum(in_type(DataType.DT_INT64, repeats), 0)
    total = ge.ReduceSum(in_type(DataType.DT_INT64, repeats), [0]) if output_size is None else output_size
    positions = ge.Range(*in_type(DataType.DT_INT64, 0, total, 1))
    indices = ge.SearchSorted(ends, positions, None, dtype=DataType.DT_INT64, right=True)
    return indices if repeats.dtype == DataType.DT_INT64 else ge.Cast(indices, dst_type=repeats.dtype)


@converts(aten.masked_select.default)
def masked_select(x: Tensor, mask: Tensor, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """MaskedSelect."""
    return ge.MaskedSelect(x, mask)


@converts(aten.cumprod.default)
def cumprod(x: Tensor, dim: int, *, dtype: Any = None, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """Cumprod in the dtype of the result; the identity for a scalar."""
    numbers = in_type(meta_outputs.dtype, x)
    return ge.Cumprod(numbers, dim % x.rank) if x.rank else ge.Identity(numbers)

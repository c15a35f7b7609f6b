"""Views, which GE does not have: nodes that copy the same elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.converters import UPSTREAM
from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import converts, in_type
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

aten = torch.ops.aten


@converts(aten.squeeze.dims, aten.squeeze.dim)
def squeeze(x: Tensor, dim: int | Sequence[int], meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """Squeeze of the dimensions that are 1 at compile time; the compiler has guarded that the others are not."""
    dims = {axis % x.rank for axis in ([dim] if isinstance(dim, int) else dim)} if x.rank else set()
    ones = [axis for axis in sorted(dims) if isinstance(x.symsize[axis], int) and x.symsize[axis] == 1]
    return ge.Squeeze(x, axis=ones) if ones else ge.Identity(x)


@decomposes(aten.diagonal.default)
def diagonal(x: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> torch.Tensor:
    """A strided slice of the two dimensions, flattened."""
    x = x.movedim((dim1, dim2), (-2, -1))
    *leading, rows, columns = x.shape
    length = min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
    if length <= 0:
        return x.new_empty([*leading, 0])
    start = offset if offset >= 0 else -offset * columns
    flat = x.reshape([*leading, rows * columns])
    return flat[..., start : start + (length - 1) * (columns + 1) + 1 : columns + 1]


@converts(aten.empty_strided.default)
def empty_strided(size: Any, stride: Any, meta_outputs: Any = None, **options: Any) -> Tensor:  # noqa: ARG001
    """Zeros: GE has no strides, and the values are unspecified."""
    zero = in_type(meta_outputs.dtype, 0)
    return ge.Fill(size, zero) if isinstance(size, Tensor) or list(size) else zero  # type: ignore[no-any-return]


@converts(aten.as_strided.default)
def as_strided(x: Tensor, size: Any, stride: Any, storage_offset: Any = None, meta_outputs: Any = None) -> Any:
    """TorchAir's node for contiguous tensors: GE tensors have no other strides."""
    _refuse_strides("aten.as_strided", x)
    if not isinstance(size, Tensor) and not list(size):
        flat = ge.Reshape(x, [-1])
        return ge.Reshape(ge.GatherV2(flat, in_type(torch.int64, [storage_offset or 0]), [0]), [])
    return UPSTREAM[aten.as_strided.default](x, size, stride, storage_offset, meta_outputs=meta_outputs)


@converts(aten.as_strided_scatter.default)
def as_strided_scatter(
    x: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: Any = None, meta_outputs: Any = None
) -> Any:
    """ViewCopy with the strides of a contiguous ``src``; for dynamic sizes TorchAir passes a single stride."""
    _refuse_strides("aten.as_strided_scatter", x)
    if not src.rank:
        src, size, stride = ge.Reshape(src, [1]), [1], [1]
    if isinstance(size, Tensor):
        rows = ge.Cumprod(size, in_type(torch.int64, 0), exclusive=True, reverse=True)
    else:
        rows = [math.prod(size[axis + 1 :]) for axis in range(len(size))]
    offset = 0 if storage_offset is None else storage_offset
    return ge.ViewCopy(x, size, stride, offset, in_type(meta_outputs.dtype, src), size, rows, 0)


def _refuse_strides(operator: str, x: Tensor) -> None:
    if not x.meta.is_contiguous():
        raise NotImplementedError(
            f"{operator} is lowered for contiguous tensors alone: call contiguous() before it, or index instead"
        )


@converts(aten.index_select.default)
def index_select(x: Tensor, dim: int, index: Tensor, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """GatherV2 with an index of one dimension; the identity for a scalar."""
    if not x.rank:
        return ge.Identity(x)
    return ge.GatherV2(x, index if index.rank else ge.Reshape(index, [1]), in_type(torch.int64, dim))

"""npu_max and npu_min along a dimension with their gradients, and npu_sort_v2.

The index is that of the first of equal elements. NaN is refused, because its handling is not documented. npu_sort_v2
rounds to float16 before it sorts, as the example in its document shows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor


@value_check
def _refuse_nan(op: str, x: Tensor) -> Tensor:
    """``x``; refuses NaN."""
    if bool(x.isnan().any()):
        raise Refusal(f"{op}: input must hold numbers alone, for the documents say nothing of NaN, got NaN")
    return x


def max_dim(input: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:  # noqa: A002
    """``(values, indices)``."""
    values, indices = _refuse_nan("npu_max", input).max(dim, keepdim)
    return values, indices.int()


def min_dim(input: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:  # noqa: A002
    """``(values, indices)``."""
    values, indices = _refuse_nan("npu_min", input).min(dim, keepdim)
    return values, indices.int()


def backward(grad: Tensor, dim: int, indices: Tensor, sizes: Sequence[int], keepdim: bool) -> Tensor:
    """The gradient at the indices of the values, 0 at all others."""
    if not keepdim:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return grad.new_zeros(tuple(sizes)).scatter(dim, indices.long(), grad)


def sort(input: Tensor, descending: bool) -> Tensor:  # noqa: A002
    """The elements of each row sorted, rounded to float16."""
    halves = _refuse_nan("npu_sort_v2", input).to(torch.float16)
    return halves.sort(-1, descending=descending).values.to(input.dtype)

"""npu_max and npu_min along a dimension with their gradients, and npu_sort_v2.

Of equal elements the first is meant. What becomes of NaN is said nowhere, so that it is refused. npu_sort_v2 rounds to
float16 before it sorts, as the numbers that its document prints show.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor


@value_check
def _numbers(op: str, x: Tensor) -> Tensor:
    """``x``, refused where it is no number."""
    if bool(x.isnan().any()):
        raise Refusal(f"{op}: input must hold numbers alone, for the documents say nothing of NaN, got NaN")
    return x


def largest(input: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:  # noqa: A002
    """``(values, indices)``."""
    values, indices = _numbers("npu_max", input).max(dim, keepdim)
    return values, indices.int()


def smallest(input: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:  # noqa: A002
    """``(values, indices)``."""
    values, indices = _numbers("npu_min", input).min(dim, keepdim)
    return values, indices.int()


def backward(grad: Tensor, dim: int, indices: Tensor, sizes: Sequence[int], keepdim: bool) -> Tensor:
    """The gradient at the places of the values, 0 elsewhere."""
    if not keepdim:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return grad.new_zeros(tuple(sizes)).scatter(dim, indices.long(), grad)


def ordered(input: Tensor, descending: bool) -> Tensor:  # noqa: A002
    """The elements of each row in order, as halves."""
    halves = _numbers("npu_sort_v2", input).to(torch.float16)
    return halves.sort(-1, descending=descending).values.to(input.dtype)

"""aten._cdist_forward becomes a matrix product or Cdist, by the same rule as in ATen."""

from __future__ import annotations

import math
from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import converts, in_type, is_static, run_time_shape, taken_in
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

aten = torch.ops.aten
_BY_PRODUCT, _UNDECIDED, _MANY_ROWS = 1, 0, 25
# The value of p that means the infinity norm to the node.
_INFINITY_NORM = -1.0


@decomposes(aten._cdist_forward.default)
def cdist(x1: torch.Tensor, x2: torch.Tensor, p: float, compute_mode: int | None) -> Any:
    """Decompose into a product where ATen uses one, and broadcast batches; NotImplemented for what Cdist computes."""
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    many = x1.size(-2) > _MANY_ROWS or x2.size(-2) > _MANY_ROWS
    if p == 2 and (compute_mode == _BY_PRODUCT or (not compute_mode and many)):
        return _by_product(x1, x2)
    if list(x1.shape[:-2]) == list(x2.shape[:-2]):
        return NotImplemented
    one, other = (x.expand([*batch, *x.shape[-2:]]).clone() for x in (x1, x2))
    return aten._cdist_forward.default(one, other, p, compute_mode)


def _by_product(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    """The sum of squares minus twice the product, in one matrix multiplication, as ATen computes it."""
    one, other = (x.pow(2).sum(-1, keepdim=True) for x in (x1, x2))
    left = torch.cat([x1 * -2, one, torch.ones_like(one)], -1)
    right = torch.cat([x2, torch.ones_like(other), other], -1)
    return torch.matmul(left, right.mT).clamp_min(0).sqrt()


@converts(aten._cdist_forward.default)
def lower(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """Cdist of all pairs of rows, which the node expects as broadcast inputs."""
    rank, shape, inner = x1.rank, _pairs(x1, x2), taken_in("Cdist", x1.dtype)
    rows = ge.BroadcastTo(ge.Unsqueeze(in_type(inner, x1), axes=[rank - 1]), shape)
    others = ge.BroadcastTo(ge.Unsqueeze(in_type(inner, x2), axes=[rank - 2]), shape)
    distances = ge.Cdist(rows, others, p=_INFINITY_NORM if math.isinf(p) else float(p))
    return distances if inner == x1.dtype else ge.Cast(distances, dst_type=x1.dtype)


def _pairs(x1: Tensor, x2: Tensor) -> Any:
    """The shape (batch, rows, other rows, columns)."""
    if is_static(x1.symsize) and is_static(x2.symsize):
        return [*x1.symsize[:-1], *x2.symsize[-2:]]
    first = ge.Gather(run_time_shape(x1), list(range(x1.rank - 1)))
    last = ge.Gather(run_time_shape(x2), [x2.rank - 2, x2.rank - 1])
    return ge.ConcatV2([first, last], 0, N=2)

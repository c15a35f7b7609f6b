"""npu_clipped_swiglu: ``swish(min(a, limit), alpha) * (clamp(b, limit) + bias)``.

The dimensions from ``dim`` on form one row. a and b are its even and odd elements, or its halves. Half precision is
computed in float32 and rounded once. With group_index only the first ``sum(group_index)`` rows are computed; the device
leaves the others uninitialised, here they are zero.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.ge import kernel
from graph_quant.reference.activation.activation_functions import EVEN_ODD, apply_swiglu
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor

_HALVES = 2


@value_check
def check_group_sizes(group_index: Tensor) -> Tensor:
    for index, size in enumerate(group_index.tolist()):
        if size < 0:
            raise Refusal(f"npu_clipped_swiglu: group_index[{index}] must not be negative, got {size}")
    return group_index


def clipped_swiglu(
    x: Tensor, group_index: Tensor | None, dim: int, alpha: float, limit: float, bias: float, interleaved: bool
) -> Tensor:
    """Clipped SwiGLU of ``x``; the result has half the size in ``dim``."""
    dim = dim % x.dim()
    rows = x.reshape(x.shape[:dim].numel(), x.shape[dim:].numel())
    y = apply_swiglu(rows.float(), True, EVEN_ODD if interleaved else _HALVES, limit, alpha, bias).to(x.dtype)
    if group_index is not None:
        count = check_group_sizes(group_index).sum()
        computed = torch.arange(rows.size(0), device=x.device) < count
        y = torch.where(computed.unsqueeze(-1), y, 0.0)
    return y.reshape(*x.shape[:dim], x.size(dim) // 2, *x.shape[dim + 1 :])


@kernel("ClippedSwiglu", flops=8, chips=A2_A3_950)
def clipped_swiglu_node(
    x: Tensor,
    group_index: Tensor | None = None,
    *,
    dim: int = -1,
    alpha: float = 1.702,
    limit: float = 7.0,
    bias: float = 1.0,
    interleaved: bool = True,
) -> Tensor:
    return clipped_swiglu(x, group_index, dim, alpha, limit, bias, interleaved)

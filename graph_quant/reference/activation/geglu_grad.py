"""The gradient of npu_geglu: ``dy * gelu`` for the one half, ``dy * other * gelu'(gate)`` for the one under gelu.

bfloat16 is widened and rounded once; float16 multiplies both times by dy in float16, and goes on in float32. With
approximate 1 the slope is ``(x * (s - 1) * c + 1) * s``, where ``s = 1 / (exp(x * (a1 * x**2 + a2)) + 1)`` and
``c = a3 * x**2 + a4``, as the kernel writes it; with 0 it is ``cdf + x * pdf`` of the normal distribution, whose error
function is the CPU's, where the kernel has a polynomial that is off by a few units of float32.
"""

from __future__ import annotations

import torch
from graph_quant.ge import kernel
from torch import Tensor

A1, A2 = -0.0713548162726002527220, -1.5957691216057308
A3, A4 = -0.21406444881780074632901625683959062, -1.5957691216057307117597842397375274738
ROOT_OF_HALF, PEAK = 0.70710678118, 0.3989422804


@kernel("GeGluGradV2", flops=20)
def geglu_grad(
    dy: Tensor, x: Tensor, gelu: Tensor, *, dim: int = -1, approximate: int = 1, activate_left: bool = False
) -> Tensor:
    """The gradient of ``x``; ``gelu`` is the second result of the operator."""
    if not x.numel():
        return torch.empty_like(x, memory_format=torch.contiguous_format)
    left, right = x.chunk(2, dim)
    gate, other = (left, right) if activate_left else (right, left)
    if x.dtype == torch.float16:
        of_other, given = gelu * dy, (other * dy).float()
    else:
        of_other, given = (gelu.float() * dy.float()).to(x.dtype), other.float() * dy.float()
    slope = _slope_of_tanh(gate.float()) if approximate else _slope_of_erf(gate.float())
    of_gate = (slope * given).to(x.dtype)
    return torch.cat([of_gate, of_other] if activate_left else [of_other, of_gate], dim)


def _slope_of_tanh(x: Tensor) -> Tensor:
    square = x * x
    sigmoid = 1.0 / (torch.exp((square * A1 + A2) * x) + 1.0)
    return ((sigmoid - 1.0) * x * (square * A3 + A4) + 1.0) * sigmoid


def _slope_of_erf(x: Tensor) -> Tensor:
    below = (torch.erf(x * ROOT_OF_HALF) + 1.0) * 0.5
    return below + torch.exp(x * x * -0.5) * PEAK * x

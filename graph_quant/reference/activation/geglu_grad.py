"""The gradient of npu_geglu: ``dy * gelu`` for the linear half, ``dy * other * gelu'(gate)`` for the gate.

bfloat16 is computed in float32 and rounded once; for float16 both products with dy are float16, the rest is float32.
With approximate 1 the derivative is ``(x * (s - 1) * c + 1) * s``, where ``s = 1 / (exp(x * (a1 * x**2 + a2)) + 1)``
and ``c = a3 * x**2 + a4``, the form of the kernel; with 0 it is ``cdf + x * pdf`` of the normal distribution, with the
CPU's erf, where the kernel has a polynomial that is off by a few units in the last place of float32.
"""

from __future__ import annotations

import torch
from graph_quant.ge import kernel
from torch import Tensor

A1, A2 = -0.0713548162726002527220, -1.5957691216057308
A3, A4 = -0.21406444881780074632901625683959062, -1.5957691216057307117597842397375274738
SQRT_HALF, PDF_PEAK = 0.70710678118, 0.3989422804


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
        of_other, upstream = gelu * dy, (other * dy).float()
    else:
        of_other, upstream = (gelu.float() * dy.float()).to(x.dtype), other.float() * dy.float()
    derivative = _tanh_derivative(gate.float()) if approximate else _erf_derivative(gate.float())
    of_gate = (derivative * upstream).to(x.dtype)
    return torch.cat([of_gate, of_other] if activate_left else [of_other, of_gate], dim)


def _tanh_derivative(x: Tensor) -> Tensor:
    square = x * x
    sigmoid = 1.0 / (torch.exp((square * A1 + A2) * x) + 1.0)
    return ((sigmoid - 1.0) * x * (square * A3 + A4) + 1.0) * sigmoid


def _erf_derivative(x: Tensor) -> Tensor:
    cdf = (torch.erf(x * SQRT_HALF) + 1.0) * 0.5
    return cdf + torch.exp(x * x * -0.5) * PDF_PEAK * x

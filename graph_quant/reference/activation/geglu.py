"""npu_geglu: one half of a tensor times the gelu of the other, in float32; both results are rounded once.

approximate 1 is ``x / (1 + exp(-1.5957691 * (x + 0.044715 * x**3)))``, the hyperbolic tangent as the kernel writes it;
0 is the error function. It and the exponential are the CPU's; a device's may differ by a few units of float32.
"""

from __future__ import annotations

import torch
from graph_quant.ge import kernel
from torch import Tensor
from torch.nn import functional


@kernel("GeGluV2", flops=12)
def geglu(x: Tensor, *, dim: int = -1, approximate: int = 1, activate_left: bool = False) -> tuple[Tensor, Tensor]:
    """``(other * gelu(gate), gelu(gate))``; the gate is the second half, or the first."""
    left, right = x.float().chunk(2, dim)
    gate, other = (left, right) if activate_left else (right, left)
    activated = _tanh(gate) if approximate else functional.gelu(gate.contiguous())
    return (other * activated).to(x.dtype), activated.to(x.dtype)


def _tanh(x: Tensor) -> Tensor:
    argument = (x * x * x * 0.044715 + x) * 1.5957691216057308
    return x / (torch.exp(-argument) + 1.0)

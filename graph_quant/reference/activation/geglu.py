"""npu_geglu: one half of a tensor times the GELU of the other, in float32; both results are rounded once.

For float16 the GELU is rounded before the product. approximate 1 is ``x / (1 + exp(-1.5957691 * (x + 0.044715 *
x**3)))``, the kernel's form of the tanh approximation; 0 is erf by a polynomial. The exponential is correctly rounded;
a device's may be off by one bit.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950, is_950
from graph_quant.ge import kernel
from graph_quant.reference.activation.activation_functions import exp_float32, gelu_erf
from torch import Tensor

# The limit of the kernel's polynomial for erf.
_ERF_HIGH = 5.75


@kernel("GeGluV2", flops=12, chips=A2_A3_950)
def geglu(x: Tensor, *, dim: int = -1, approximate: int = 1, activate_left: bool = False) -> tuple[Tensor, Tensor]:
    """``(other * gelu(gate), gelu(gate))``; the gate is the second half, or the first."""
    if not approximate and is_950():
        raise NotImplementedError("GeGluV2: approximate 0 has no host kernel of Ascend 950")
    left, right = x.float().chunk(2, dim)
    gate, other = (left, right) if activate_left else (right, left)
    activated = _gelu_tanh(gate) if approximate else gelu_erf(gate, -torch.inf, _ERF_HIGH)
    gelu = activated.to(x.dtype)
    return (other * (gelu.float() if x.dtype == torch.float16 else activated)).to(x.dtype), gelu


def _gelu_tanh(x: Tensor) -> Tensor:
    argument = (x * x * x * 0.044715 + x) * 1.5957691
    return x / (exp_float32(-argument) + 1.0)

"""npu_gelu_mul: the GELU of the first half of each row times the second, in float32, rounded once.

Both forms of GELU are those of ``activation_functions``: the polynomial and the order of the A2/A3 kernel.
"""

from __future__ import annotations

from graph_quant.ge import kernel
from graph_quant.reference.activation.activation_functions import GELU_ERF, GELU_TANH, apply_activation
from torch import Tensor


@kernel("GeluMul", flops=20)
def gelu_mul(x: Tensor, *, approximate: str = "none") -> Tensor:
    """``gelu(a) * b`` of the halves of the last dimension."""
    gate, other = x.float().chunk(2, -1)
    return (apply_activation(gate, GELU_TANH if approximate == "tanh" else GELU_ERF) * other).to(x.dtype)

"""npu_gelu, npu_fast_gelu, npu_silu and npu_silu_: computed in float32, rounded once.

The result does not depend on strides. erf and exp are the CPU's; a device's may differ by a few units in the last
place of float32.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950, CHIPS
from graph_quant.ge import kernel
from torch import Tensor
from torch.nn import functional


@kernel("GeluV2", chips=CHIPS, flops=8)
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """``x`` times the normal CDF, or its tanh approximation."""
    return functional.gelu(x.contiguous(), approximate=approximate)


@kernel("FastGelu", flops=5, chips=A2_A3_950)
def fast_gelu(x: Tensor) -> Tensor:
    """``x / (1 + exp(-1.702 * x))``, the formula of A2 and A3."""
    wide = x.float()
    return (wide / (1.0 + torch.exp(-1.702 * wide))).to(x.dtype)


def silu(x: Tensor) -> Tensor:
    """``x / (1 + exp(-x))``."""
    return functional.silu(x.contiguous())


def silu_in_place(input: Tensor) -> Tensor:  # noqa: A002
    """``silu`` written over its input."""
    return input.copy_(silu(input))

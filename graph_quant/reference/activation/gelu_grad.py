"""The gradients of npu_gelu, npu_fast_gelu and npu_silu: computed in float32, rounded once.

The kernels of A2 and A3 are not public: the formulas are those of the documents, erf and exp are the CPU's, and a
device may differ by a few units in the last place of float32.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950, CHIPS, is_950
from graph_quant.ge import kernel
from torch import Tensor

aten = torch.ops.aten
# The steepness of the sigmoid that approximates the normal CDF.
SLOPE = 1.702


def gelu_backward(grad_output: Tensor, x: Tensor, approximate: str) -> Tensor:
    """``grad_output`` times the derivative of GELU; both are broadcast and promoted first."""
    dtype = torch.promote_types(grad_output.dtype, x.dtype)
    upstream, point = torch.broadcast_tensors(grad_output.to(dtype), x.to(dtype))
    return gelu_grad_v2(upstream, point, approximate=approximate)


@kernel("GeluGradV2", chips=CHIPS, flops=14)
def gelu_grad_v2(dy: Tensor, x: Tensor, *, approximate: str = "none") -> Tensor:
    return aten.gelu_backward(dy.contiguous(), x.contiguous(), approximate=approximate)  # type: ignore[no-any-return]


@kernel("FastGeluGrad", flops=8, chips=A2_A3_950)
def fast_gelu_backward(dy: Tensor, x: Tensor) -> Tensor:
    """``dy * ((s - 1) * -1.702 * x + 1) * s`` with ``s = 1 / (exp(-1.702 * x) + 1)``.

    Ascend 950 multiplies by dy last.
    """
    wide = x.float()
    scaled = wide * -SLOPE
    sigmoid = 1.0 / (torch.exp(scaled) + 1.0)
    slope = (sigmoid - 1.0) * scaled + 1.0
    product = dy.float() * (slope * sigmoid) if is_950() else dy.float() * slope * sigmoid
    return product.to(x.dtype)


def silu_backward(grad: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of ``x``; ``y`` is the result of the operator."""
    return swish_grad(grad, x, y)


@kernel("SwishGrad", chips=CHIPS, flops=7)
def swish_grad(grad: Tensor, x: Tensor, y: Tensor | None = None, *, scale: float = 1.0) -> Tensor:  # noqa: ARG001
    """``grad * (s + scale * x * s * (1 - s))`` with s the sigmoid of ``scale * x``."""
    wide, upstream = (tensor if tensor.dtype == torch.float64 else tensor.float() for tensor in (x, grad))
    gate = torch.sigmoid(scale * wide)
    return (upstream * gate * (1.0 + scale * wide * (1.0 - gate))).to(x.dtype)

"""npu_swiglu: ``swish(a) * b`` of the halves of a dimension, and its gradient.

Half precision is computed in float32 as ``a / (1 + exp(-a)) * b`` and rounded once; the float32 kernel computes
``(1 / (1 + exp(-a))) * a * b``. With g the gradient of the result and ``s = 1 / (1 + exp(-a))``, the gradients are
``(s * (1 - s) * a + s) * g * b`` and ``s * a * g``, rounded once; the float32 kernel multiplies by b before g.

On Ascend 950 the first gradient is ``(1 + (1 - s) * a) * (g * s) * b`` in every dtype, the second ``g * s * a``.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950, is_950
from graph_quant.ge import kernel
from graph_quant.reference.activation.activation_functions import exp_float32, swish
from torch import Tensor


def swiglu(x: Tensor, dim: int) -> Tensor:
    """SwiGLU of ``x``; the result has half the size in ``dim``."""
    swished, linear = x.chunk(2, dim) if x.size(dim) else (x, x)
    if x.dtype == torch.float32:
        return 1.0 / (exp_float32(-swished) + 1.0) * swished * linear
    return (swish(swished.float()) * linear.float()).to(x.dtype)


@kernel("SwiGlu", flops=5, chips=A2_A3_950)
def swi_glu(x: Tensor, *, dim: int = -1) -> Tensor:
    return swiglu(x, dim)


def swiglu_backward(grad_output: Tensor, x: Tensor, dim: int) -> Tensor:
    """The gradient of ``x``."""
    swished, linear = (half.float() for half in (x.chunk(2, dim) if x.size(dim) else (x, x)))
    upstream = grad_output.float()
    sigmoid = 1.0 / (exp_float32(-swished) + 1.0)
    if is_950():
        gated = upstream * sigmoid
        of_swished = ((1.0 - sigmoid) * swished + 1.0) * gated * linear
        return torch.cat([of_swished, gated * swished], dim).to(x.dtype) if x.size(dim) else torch.empty_like(x)
    derivative = sigmoid * (1.0 - sigmoid) * swished + sigmoid
    of_swished = derivative * linear * upstream if x.dtype == torch.float32 else derivative * upstream * linear
    return (
        torch.cat([of_swished, sigmoid * swished * upstream], dim).to(x.dtype) if x.size(dim) else torch.empty_like(x)
    )


@kernel("SwiGluGrad", flops=9, chips=A2_A3_950)
def swi_glu_grad(y_grad: Tensor, x: Tensor, *, dim: int = -1) -> Tensor:
    return swiglu_backward(y_grad, x, dim)

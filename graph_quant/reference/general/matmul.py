"""npu_linear and npu_bmmV2: accumulated in float32 and rounded once; int32 is exact modulo 2**32."""

from __future__ import annotations

from graph_quant.reference.half_products import multiply
from torch import Tensor


def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
    """``input @ weight.T + bias``."""
    return multiply(input, weight.t(), bias, input.dtype)


def linear_backward(grad: Tensor, input: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:  # noqa: A002
    """The gradients of input and weight."""
    return multiply(grad, weight, dtype=grad.dtype), multiply(grad.t(), input, dtype=grad.dtype)


def batch_matmul(input: Tensor, mat2: Tensor) -> Tensor:  # noqa: A002
    """``input @ mat2`` with broadcast batch dimensions."""
    if not input.dtype.is_floating_point:
        return input @ mat2
    return multiply(input, mat2, dtype=input.dtype)

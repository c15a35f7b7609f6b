"""npu_linear and npu_bmmV2: accumulated in float32 and rounded once; int32 is exact modulo 2**32."""

from __future__ import annotations

from torch import Tensor


def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
    """``input @ weight.T + bias``."""
    product = input.float() @ weight.float().t()
    return (product if bias is None else product + bias.float()).to(input.dtype)


def linear_backward(grad: Tensor, input: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:  # noqa: A002
    """The gradients of input and weight."""
    wide = grad.float()
    return (wide @ weight.float()).to(grad.dtype), (wide.t() @ input.float()).to(grad.dtype)


def batch_matmul(input: Tensor, mat2: Tensor) -> Tensor:  # noqa: A002
    """``input @ mat2`` with broadcast batch dimensions."""
    if not input.dtype.is_floating_point:
        return input @ mat2
    return (input.float() @ mat2.float()).to(input.dtype)

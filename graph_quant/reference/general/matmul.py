"""npu_linear and npu_bmmV2: products summed in float32 and rounded once, of integers exact but for their range."""

from __future__ import annotations

from torch import Tensor


def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
    """``input @ weight.T``, and bias."""
    product = input.float() @ weight.float().t()
    return (product if bias is None else product + bias.float()).to(input.dtype)


def linear_backward(grad: Tensor, input: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:  # noqa: A002
    """The gradients of input and weight."""
    wide = grad.float()
    return (wide @ weight.float()).to(grad.dtype), (wide.t() @ input.float()).to(grad.dtype)


def batched(input: Tensor, mat2: Tensor) -> Tensor:  # noqa: A002
    """The products of batches."""
    if not input.dtype.is_floating_point:
        return input @ mat2
    return (input.float() @ mat2.float()).to(input.dtype)

"""Convolutions as in graphs: half precision is summed in float32 and rounded once, gradients come one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ...reference.half_precision import HALF_DTYPES
from .kernels import Kernel


def _in_float32(_op: OpOverload, kernel: Kernel) -> Kernel:
    def wrapper(x: Tensor, weight: Tensor, bias: Tensor | None, *settings: Any) -> Any:
        if x.dtype not in HALF_DTYPES:
            return kernel(x, weight, bias, *settings)
        wide = None if bias is None else bias.float()
        return kernel(x.float(), weight.float(), wide, *settings).to(x.dtype)

    return wrapper


def _split_backward(_op: OpOverload, kernel: Kernel) -> Kernel:
    """Call ``kernel`` once per gradient. The gradient of the bias is the sum of ``grad`` over batch and space.

    The input gradient of a transposed convolution is a convolution of ``grad``; for the weight gradient, ``grad`` and
    the input change roles.
    """

    def wrapper(
        grad: Tensor,
        x: Tensor,
        weight: Tensor,
        bias_sizes: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Sequence[int],
        groups: int,
        output_mask: Sequence[bool],
    ) -> Any:
        if transposed and any(extra >= step for extra, step in zip(output_padding, stride, strict=True)):
            rest = (stride, padding, dilation, transposed, output_padding, groups, output_mask)
            return kernel(grad, x, weight, bias_sizes, *rest)
        settings = (stride, padding, dilation, False, [0] * len(output_padding), groups)
        grad_x = grad_weight = grad_bias = None
        if output_mask[0] and transposed:
            grad_x = torch.convolution(grad, weight, None, *settings)
        elif output_mask[0]:
            grad_x = kernel(grad, x, weight, None, *settings, [True, False, False])[0]
        if output_mask[1]:
            output_grad, source = (x, grad) if transposed else (grad, x)
            grad_weight = kernel(output_grad, source, weight, None, *settings, [False, True, False])[1]
        if output_mask[2]:
            planes = grad.flatten(3 if grad.dim() == 5 else 2)
            grad_bias = planes.sum([0, *range(2, planes.dim())])
        return grad_x, grad_weight, grad_bias

    return wrapper


WRAPPERS = {
    **dict.fromkeys(("aten::convolution", "aten::convolution_overrideable", "aten::_convolution"), _in_float32),
    **dict.fromkeys(("aten::convolution_backward", "aten::convolution_backward_overrideable"), _split_backward),
}

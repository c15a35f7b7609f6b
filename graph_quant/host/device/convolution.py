"""Convolutions as in graphs: halves are summed in float32 and rounded once, gradients computed one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..half_precision import HALF_DTYPES
from .kernels import Kernel

NAMES = frozenset({"aten::convolution", "aten::convolution_overrideable", "aten::_convolution"})
BACKWARD = frozenset({"aten::convolution_backward", "aten::convolution_backward_overrideable"})


def in_float32(kernel: Kernel) -> Kernel:
    """``kernel``, which is given no halves."""

    def serve(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        *settings: Any,
    ) -> Any:
        if x.dtype not in HALF_DTYPES:
            return kernel(x, weight, bias, *settings)
        wide = None if bias is None else bias.float()
        return kernel(x.float(), weight.float(), wide, *settings).to(x.dtype)

    return serve


def one_by_one(kernel: Kernel) -> Kernel:
    """``kernel``, a gradient at a time; a bias has the sum of what flows back, whole planes at a time.

    A transposed convolution is another one's gradient: what flows back is convolved, and takes its input's part.
    """

    def serve(
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
        wanted: Sequence[bool],
    ) -> Any:
        if transposed and any(more >= step for more, step in zip(output_padding, stride, strict=True)):
            rest = (stride, padding, dilation, transposed, output_padding, groups, wanted)
            return kernel(grad, x, weight, bias_sizes, *rest)
        settings = (stride, padding, dilation, False, [0] * len(output_padding), groups)
        of_x = of_weight = of_bias = None
        if wanted[0] and transposed:
            of_x = torch.convolution(grad, weight, None, *settings)
        elif wanted[0]:
            of_x = kernel(grad, x, weight, None, *settings, [True, False, False])[0]
        if wanted[1]:
            flowing, read = (x, grad) if transposed else (grad, x)
            of_weight = kernel(flowing, read, weight, None, *settings, [False, True, False])[1]
        if wanted[2]:
            planes = grad.flatten(3 if grad.dim() == 5 else 2)
            of_bias = planes.sum([0, *range(2, planes.dim())])
        return of_x, of_weight, of_bias

    return serve

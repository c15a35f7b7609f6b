"""Pooling windows over images in NCHW."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ...ge.kernels import kernel
from ...ge.sizes import Sizes
from ...ge.torch_dtypes import from_attr


@kernel("AdaptiveAvgPool2d")
def adaptive_avg_pool(x: Tensor, *, output_size: Sequence[int]) -> Tensor:
    return functional.adaptive_avg_pool2d(x, tuple(output_size))  # type: ignore[arg-type]


@kernel("AvgPoolV2")
def avg_pool(
    x: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int] = (0, 0, 0, 0),
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: int = 0,
) -> Tensor:
    padding = [pads[0], pads[2]]
    return functional.avg_pool2d(
        x, list(ksize[2:]), list(strides[2:]), padding, ceil_mode, not exclusive, divisor_override or None
    )


@kernel("AvgPoolV2Grad")
def avg_pool_grad(
    orig_input_shape: Sizes,
    input_grad: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int] = (0, 0, 0, 0),
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: int = 0,
) -> Tensor:
    shape_only = torch.zeros(list(orig_input_shape.ints), dtype=input_grad.dtype)
    return torch.ops.aten.avg_pool2d_backward(  # type: ignore[no-any-return]
        input_grad,
        shape_only,
        list(ksize[2:]),
        list(strides[2:]),
        [pads[0], pads[2]],
        ceil_mode,
        not exclusive,
        divisor_override or None,
    )


@kernel("MaxPoolV3")
def max_pool(
    x: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int] = (0, 0, 0, 0),
    ceil_mode: bool = False,
) -> Tensor:
    padding = [pads[0], pads[2]]
    return functional.max_pool2d(x, list(ksize[2:]), list(strides[2:]), padding, ceil_mode=ceil_mode)


@kernel("MaxPoolWithArgmaxV3")
def max_pool_with_argmax(
    x: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dtype: int = 3,
    dilation: Sequence[int] = (1, 1),
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    y, where = torch.ops.aten.max_pool2d_with_indices(
        x, list(ksize[-2:]), list(strides[-2:]), list(pads[-2:]), list(dilation[-2:]), ceil_mode
    )
    return y, where.to(from_attr(dtype))

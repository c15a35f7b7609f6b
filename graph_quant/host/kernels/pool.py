"""Pooling of images and volumes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ...ge import CHANNELS_FIRST, Sizes, from_attr, kernel
from ...reference.half_precision import HALF_DTYPES


@kernel("AdaptiveAvgPool2d")
def adaptive_avg_pool(x: Tensor, *, output_size: Sequence[int]) -> Tensor:
    return functional.adaptive_avg_pool2d(x, tuple(output_size))  # type: ignore[arg-type]


@kernel("AvgPoolV2", only=CHANNELS_FIRST)
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


@kernel("AdaptiveAvgPool2dGrad")
def adaptive_avg_pool_grad(input_grad: Tensor, *, orig_input_shape: Sequence[int]) -> Tensor:
    shape_only = torch.zeros(list(orig_input_shape), dtype=input_grad.dtype)
    return torch.ops.aten._adaptive_avg_pool2d_backward(input_grad, shape_only)  # type: ignore[no-any-return]


@kernel("AdaptiveAvgPool3d")
def adaptive_avg_pool_volume(x: Tensor, *, output_size: Sequence[int], data_format: str = "NDHWC") -> Tensor:
    pooled = functional.adaptive_avg_pool3d(_channels_first(x, data_format), tuple(output_size))  # type: ignore[arg-type]
    return _restore_format(pooled, data_format)


@kernel("AdaptiveMaxPool3d")
def adaptive_max_pool_volume(x: Tensor, *, output_size: Sequence[int], indices_dtype: int = 3) -> tuple[Tensor, Tensor]:
    values, indices = torch.ops.aten.adaptive_max_pool3d(x, list(output_size))
    return values, indices.to(from_attr(indices_dtype))


@kernel("AvgPool3D")
def avg_pool_volume(
    x: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int = 0,
    data_format: str = "NDHWC",
) -> Tensor:
    """Average windows; half precision is summed in float32 and rounded once, for the CPU has no kernel for it."""
    window, steps = (_depth_height_width(sizes, data_format) for sizes in (ksize, strides))
    wide = x.float() if x.dtype in HALF_DTYPES else x
    pooled = functional.avg_pool3d(
        _channels_first(wide, data_format),
        window,
        steps,
        list(pads[::2]),
        ceil_mode,
        count_include_pad,
        divisor_override or None,
    )
    return _restore_format(pooled.to(x.dtype), data_format)


def _depth_height_width(sizes: Sequence[int], data_format: str) -> list[int]:
    """Return the sizes of depth, height and width."""
    if len(sizes) < 5:
        return list(sizes) * (3 // len(sizes))
    return list(sizes[2:] if data_format == "NCDHW" else sizes[1:4])


def _channels_first(x: Tensor, data_format: str) -> Tensor:
    return x if data_format == "NCDHW" else x.movedim(-1, 1)


def _restore_format(x: Tensor, data_format: str) -> Tensor:
    return x if data_format == "NCDHW" else x.movedim(1, -1).contiguous()


@kernel("Col2im")
def col2im(
    x: Tensor,
    output_size: Sizes,
    *,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    """Sum columns (n, channels, window elements, windows) into an image."""
    columns = x.reshape(x.size(0), x.size(1) * x.size(2), x.size(3))
    return functional.fold(
        columns, tuple(output_size.ints), tuple(kernel_size), tuple(dilation), tuple(padding), tuple(stride)
    )


@kernel("AvgPoolV2Grad", only=CHANNELS_FIRST)
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


@kernel("MaxPoolV3", only=CHANNELS_FIRST)
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


@kernel("MaxPoolWithArgmaxV3", only=CHANNELS_FIRST)
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
    y, indices = torch.ops.aten.max_pool2d_with_indices(
        x, list(ksize[-2:]), list(strides[-2:]), list(pads[-2:]), list(dilation[-2:]), ceil_mode
    )
    return y, indices.to(from_attr(dtype))


@kernel("MaxPool3DWithArgmaxV2", only=CHANNELS_FIRST)
def max_pool_volume_with_argmax(
    x: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int] = (1, 1, 1),
    ceil_mode: bool = False,
    dtype: int = 3,
) -> tuple[Tensor, Tensor]:
    """Return maxima and their indices, which count through the whole volume."""
    y, indices = torch.ops.aten.max_pool3d_with_indices(
        x, list(ksize), list(strides), list(pads), list(dilation), ceil_mode
    )
    return y, indices.to(from_attr(dtype))

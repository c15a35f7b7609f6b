"""Convolutions over channel-first tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ...ge import CHANNELS_FIRST, CONVOLUTION, Sizes, kernel


def _spatial(values: Sequence[int], rank: int) -> list[int]:
    return list(values[-rank:])


def _padding(x: Tensor, pads: Sequence[int], rank: int) -> tuple[Tensor, list[int]]:
    """Return input and symmetric padding; asymmetric padding is applied to the input first."""
    before, after = list(pads[0 : 2 * rank : 2]), list(pads[1 : 2 * rank : 2])
    if before == after:
        return x, before
    sizes = [size for pair in reversed(list(zip(before, after, strict=True))) for size in pair]
    return functional.pad(x, sizes), [0] * rank


@kernel("Conv2D", "Conv3D", flops=CONVOLUTION, only=CHANNELS_FIRST)
def convolve(
    x: Tensor,
    filter: Tensor,  # noqa: A002
    bias: Tensor | None = None,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int] = (1,),
    groups: int = 1,
) -> Tensor:
    rank = x.dim() - 2
    source, padding = _padding(x, pads, rank)
    stride, dilation = _spatial(strides, rank), _spatial(dilations, rank)
    return _convolution(source, filter, bias, stride, padding, dilation, False, [0] * rank, groups)


def _convolution(x: Tensor, weight: Tensor, bias: Tensor | None, *settings: Any) -> Tensor:
    """Accumulate half precision in float32. Inputs are contiguous because strides decide the order of summation."""
    x, weight = x.contiguous(), weight.contiguous()
    if x.dtype not in (torch.float16, torch.bfloat16):
        return torch.convolution(x, weight, bias, *settings)
    wide_bias = None if bias is None else bias.float()
    return torch.convolution(x.float(), weight.float(), wide_bias, *settings).to(x.dtype)


@kernel("Conv2DTranspose", "Conv3DTranspose", flops=CONVOLUTION, only=CHANNELS_FIRST)
def convolve_transposed(
    input_size: Sizes,
    x: Tensor,
    filter: Tensor,  # noqa: A002
    bias: Tensor | None = None,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int] = (1,),
    groups: int = 1,
    output_padding: Sequence[int] = (0,),
) -> Tensor:
    """``input_size`` is the shape of the result, or zeros if the padding determines it."""
    rank = x.dim() - 2
    stride, dilation, extra = (_spatial(values, rank) for values in (strides, dilations, output_padding))
    before = list(pads[0 : 2 * rank : 2])
    wanted = input_size.ints[-rank:]
    if any(wanted):
        kernel_size = filter.shape[2:]
        least = [
            (x.size(2 + dim) - 1) * stride[dim] - 2 * before[dim] + dilation[dim] * (kernel_size[dim] - 1) + 1
            for dim in range(rank)
        ]
        extra = [size - smallest for size, smallest in zip(wanted, least, strict=True)]
    return _convolution(x, filter, bias, stride, before, dilation, True, extra, groups)


@kernel("Conv2DBackpropInput", "Conv3DBackpropInput", flops=CONVOLUTION, only=CHANNELS_FIRST)
def convolution_input_grad(
    input_size: Sizes,
    filter: Tensor,  # noqa: A002
    out_backprop: Tensor,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int] = (1,),
    groups: int = 1,
) -> Tensor:
    rank = filter.dim() - 2
    x = torch.zeros(list(input_size.ints), dtype=filter.dtype)
    return _backward(out_backprop, x, filter, strides, pads, dilations, groups, rank, [True, False, False])[0]


@kernel("Conv2DBackpropFilter", "Conv3DBackpropFilter", flops=CONVOLUTION, only=CHANNELS_FIRST)
def convolution_filter_grad(
    x: Tensor,
    filter_size: Sizes,
    out_backprop: Tensor,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int] = (1,),
    groups: int = 1,
) -> Tensor:
    rank = x.dim() - 2
    weight = torch.zeros(list(filter_size.ints), dtype=x.dtype)
    return _backward(out_backprop, x, weight, strides, pads, dilations, groups, rank, [False, True, False])[1]


def _backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    rank: int,
    wanted: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.ops.aten.convolution_backward(  # type: ignore[no-any-return]
        grad.contiguous(),
        x.contiguous(),
        weight.contiguous(),
        None,
        _spatial(strides, rank),
        list(pads[0 : 2 * rank : 2]),
        _spatial(dilations, rank),
        False,
        [0] * rank,
        groups,
        wanted,
    )

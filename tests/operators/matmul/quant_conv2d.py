"""Calls of npu_quant_conv2d, which its document allows in static graphs alone."""

from typing import Any

import numpy as np
import torch
import torch_npu
from graph_quant.reference.matmul.quant_conv2d import quant_conv2d_node
from hypothesis import strategies as st

from support.call_strategies import SIZES, Draw, mostly, optional, tensor
from support.call_table import Case, Statement, bad, packed
from support.tensors import f16, f32, i8, i32

OP = "quant_conv2d"
HALF = 5
IMAGE, FILTERS, SCALE = i8(2, 3, 6, 5), i8(4, 3, 3, 2), packed(4)
PLAIN: tuple[Any, ...] = ([1, 1], [0, 0], [1, 1], 1, 0, "rint", HALF)
WRONG = [
    bad(OP, "offset", "an offset", IMAGE, FILTERS, SCALE, *PLAIN, offset=f32(4)),
    bad(OP, "input_dtype", "a type of Ascend 950", IMAGE, FILTERS, SCALE, *PLAIN, input_dtype=290, weight_dtype=290),
    bad(OP, "weight_dtype", "one of two types of Ascend 950", IMAGE, FILTERS, SCALE, *PLAIN, weight_dtype=290),
    bad(OP, "input", "input float16", f16(2, 3, 6, 5), FILTERS, SCALE, *PLAIN),
    bad(OP, "input", "input of three dimensions", i8(3, 6, 5), FILTERS, SCALE, *PLAIN),
    bad(OP, "input.size(0)", "no image", i8(0, 3, 6, 5), FILTERS, SCALE, *PLAIN),
    bad(OP, "weight", "weight int32", IMAGE, i32(4, 3, 3, 2), SCALE, *PLAIN),
    bad(OP, "weight", "weight of three dimensions", IMAGE, i8(3, 3, 2), SCALE, *PLAIN),
    bad(OP, "weight.size(0)", "no filter", IMAGE, i8(0, 3, 3, 2), packed(0), *PLAIN),
    bad(OP, "groups", "channels in groups", i8(2, 6, 6, 5), FILTERS, SCALE, [1, 1], [0, 0], [1, 1], 2, 0, "rint", HALF),
    bad(OP, "weight.size(1)", "another number of channels", IMAGE, i8(4, 2, 3, 2), SCALE, *PLAIN),
    bad(OP, "scale", "a scale that is not packed", IMAGE, FILTERS, f32(4), *PLAIN),
    bad(OP, "scale", "scale of two dimensions", IMAGE, FILTERS, packed(4, 1), *PLAIN),
    bad(OP, "scale.size(0)", "one scale for all", IMAGE, FILTERS, packed(1), *PLAIN),
    bad(OP, "bias", "bias float32", IMAGE, FILTERS, SCALE, *PLAIN, bias=f32(4)),
    bad(OP, "bias", "bias of two dimensions", IMAGE, FILTERS, SCALE, *PLAIN, bias=i32(1, 4)),
    bad(OP, "bias.size(0)", "one bias for all", IMAGE, FILTERS, SCALE, *PLAIN, bias=i32(1)),
    bad(OP, "weight.size(2)", "a filter too high", i8(1, 1, 256, 1), i8(1, 1, 256, 1), packed(1), *PLAIN),
    bad(OP, "weight.size(3)", "a filter too wide", i8(1, 1, 1, 256), i8(1, 1, 1, 256), packed(1), *PLAIN),
    bad(OP, "strides", "three strides", IMAGE, FILTERS, SCALE, [1, 1, 1], *PLAIN[1:]),
    bad(OP, "strides[0]", "no stride", IMAGE, FILTERS, SCALE, [0, 1], *PLAIN[1:]),
    bad(OP, "strides[1]", "a stride too long", IMAGE, FILTERS, SCALE, [1, 64], *PLAIN[1:]),
    bad(OP, "pads", "a padding for each side", IMAGE, FILTERS, SCALE, [1, 1], [0, 0, 0, 0], *PLAIN[2:]),
    bad(OP, "pads[0]", "negative padding", IMAGE, FILTERS, SCALE, [1, 1], [-1, 0], *PLAIN[2:]),
    bad(OP, "pads[1]", "too much padding", IMAGE, FILTERS, SCALE, [1, 1], [0, 256], *PLAIN[2:]),
    bad(OP, "dilations", "three dilations", IMAGE, FILTERS, SCALE, [1, 1], [0, 0], [1, 1, 1], *PLAIN[3:]),
    bad(OP, "dilations[0]", "no dilation", IMAGE, FILTERS, SCALE, [1, 1], [0, 0], [0, 1], *PLAIN[3:]),
    bad(OP, "dilations[1]", "too much dilation", IMAGE, FILTERS, SCALE, [1, 1], [0, 0], [1, 256], *PLAIN[3:]),
    bad(OP, "offset_x", "a padding beyond int8", IMAGE, FILTERS, SCALE, *PLAIN[:4], 128, "rint", HALF),
    bad(OP, "offset_x", "a padding below int8", IMAGE, FILTERS, SCALE, *PLAIN[:4], -129, "rint", HALF),
    bad(OP, "output_dtype", "no output_dtype", IMAGE, FILTERS, SCALE),
    bad(OP, "output_dtype", "output bfloat16", IMAGE, FILTERS, SCALE, *PLAIN[:6], 15),
    bad(OP, "input.size(2)", "a filter higher than the image", i8(2, 3, 2, 5), FILTERS, SCALE, *PLAIN),
    bad(OP, "input.size(3)", "a filter wider than the image", i8(2, 3, 6, 1), FILTERS, SCALE, *PLAIN),
]


def golden() -> Case:
    def call(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        params = torch_npu.npu_trans_quant_param(scale)
        return torch_npu.npu_quant_conv2d(x, weight, params, [2, 1], [1, 0], [1, 2], 1, 3, "rint", HALF, bias)

    return call, (IMAGE, FILTERS, f32(4), i32(4))


GOLDEN = {"quant_conv2d": golden()}
STATIC = {"quant_conv2d"}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    n, c, h, w, channels = (draw(SIZES) for _ in range(5))
    image = tensor(draw, (n, c, h, w), torch.int8)
    filters = tensor(draw, (channels, c, draw(st.integers(1, 3)), draw(st.integers(1, 3))), torch.int8)
    pairs = [[mostly(draw, usual, st.sampled_from([-1, 0, 2, 300])) for _ in range(2)] for usual in (1, 0, 1)]
    options: dict[str, Any] = {
        "groups": mostly(draw, 1, st.just(2)),
        "offset_x": mostly(draw, 0, st.sampled_from([-128, 127, 128])),
        "output_dtype": mostly(draw, HALF, st.sampled_from([None, 6])),
        "bias": optional(draw, (channels,), torch.int32),
    }
    return (image, filters, tensor(draw, (channels,), torch.int64), *pairs), options


def expected(
    x: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    strides: list[int],
    pads: list[int],
    dilations: list[int],
    offset_x: int,
) -> torch.Tensor:
    """Point by point of the filter, each a product over channels, on an image with its padding around."""
    n, c, h, w = x.shape
    image = np.full((n, c, h + 2 * pads[0], w + 2 * pads[1]), offset_x, np.int64)
    image[:, :, pads[0] : pads[0] + h, pads[1] : pads[1] + w] = x.numpy()
    rows, columns = (
        (image.shape[2 + at] - dilations[at] * (weight.size(2 + at) - 1) - 1) // strides[at] + 1 for at in (0, 1)
    )
    total = np.zeros((n, weight.size(0), rows, columns), np.int64)
    for down in range(weight.size(2)):
        for across in range(weight.size(3)):
            top, left = down * dilations[0], across * dilations[1]
            seen = image[:, :, top :: strides[0], left :: strides[1]][:, :, :rows, :columns]
            total += np.einsum("nchw,oc->nohw", seen, weight[:, :, down, across].numpy().astype(np.int64))
    if bias is not None:
        total += bias.numpy().astype(np.int64)[:, None, None]
    factors = (scale.numpy() & 0xFFFFE000).astype(np.uint32).view(np.float32)
    with np.errstate(over="ignore"):
        scaled = total.astype(np.float32) * factors[:, None, None]
        return torch.from_numpy(scaled.astype(np.float16))


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    n, c, channels = (draw(st.integers(1, size)) for size in (2, 5, 4))
    kernel, strides, dilations = ([draw(st.integers(1, 3)) for _ in range(2)] for _ in range(3))
    pads = [draw(st.integers(0, 3)) for _ in range(2)]
    spans = [dilation * (size - 1) + 1 for dilation, size in zip(dilations, kernel, strict=True)]
    sizes = [max(1, span - 2 * pad) + draw(st.integers(0, 4)) for span, pad in zip(spans, pads, strict=True)]
    x = torch.randint(-128, 128, (n, c, *sizes), generator=generator, dtype=torch.int8)
    weight = torch.randint(-128, 128, (channels, c, *kernel), generator=generator, dtype=torch.int8)
    scale = torch.randn(channels, generator=generator).view(torch.int32).long() & 0xFFFFFFFF
    bias = torch.randint(-(2**16), 2**16, (channels,), generator=generator, dtype=torch.int32)
    options = {
        "strides": strides,
        "pads": pads,
        "dilations": dilations,
        "offset_x": draw(st.sampled_from([0, 0, 1, -128, 127])),
    }
    return (x, weight, scale, bias if draw(st.booleans()) else None), options


def of_the_node(
    *tensors: torch.Tensor | None, strides: list[int], pads: list[int], dilations: list[int], offset_x: int
) -> torch.Tensor:
    """Call the node's kernel, because the operator is refused in eager calls."""
    return quant_conv2d_node(  # type: ignore[no-any-return]
        *tensors,
        dtype=1,
        strides=[1, 1, *strides],
        pads=[pads[0], pads[0], pads[1], pads[1]],
        dilations=[1, 1, *dilations],
        data_format="NCHW",
        offset_x=offset_x,
    )


CALLS = {"npu_quant_conv2d": calls()}
STATEMENTS = {"npu_quant_conv2d": Statement(expected, with_data(), computed=of_the_node)}

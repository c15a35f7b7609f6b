"""Calls of npu_quantize."""

from typing import Any

import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import FLOATS, NEAR, SIZES, Draw, mostly, optional, tensor
from support.call_table import INT4, Case, bad, good
from support.tensors import bf16, f16, f32, i8, i32, small32, u8

GOOD = [
    good("quantize", "mul qint8", f16(2, 3, 16), f16(16), None, torch.qint8, -1, False),
    good("quantize", "mul default axis", f16(2, 3, 16), f16(16), f16(16), torch.int8, 1, False),
    good("quantize", "mul one scale", f32(5), f32(1), f32(1), torch.qint8, 0, False),
    good("quantize", "mul axis -2", bf16(2, 3, 16), bf16(3), bf16(3), torch.qint8, -2, False),
    good("quantize", "mul full rank", f16(2, 3, 16), f16(1, 1, 16), f16(1, 1, 16), torch.qint8, -1, False),
    good("quantize", "mul full rank -2", f16(2, 3, 16), f16(1, 3, 1), None, INT4, -2, False),
    good("quantize", "mul quint4x2", f16(2, 3, 16), f16(16), None, INT4, -1, False),
    good("quantize", "mul eight dimensions", f16(1, 1, 1, 2, 1, 1, 3, 8), f16(8), None, INT4, -1, False),
    good("quantize", "mul transposed input", f16(16, 3).t(), f16(16), None, torch.qint8, -1, False),
    good("quantize", "mul no rows", f16(0, 16), f16(16), None, INT4, -1, False),
    good("quantize", "mul halves of float32", f32(3, 16), bf16(16), bf16(16), torch.qint8, -1, False),
    good("quantize", "div one scale of a vector, default axis", f32(7), f32(1), small32(1), torch.qint8),
    good("quantize", "div qint8", f16(2, 3, 16), f32(3), small32(3), torch.qint8, 1),
    good("quantize", "div quint8", f32(2, 3, 16), f32(16), u8(16), torch.quint8, -1),
    good("quantize", "div uint8", f32(2, 3, 16), f32(1), i8(1), torch.uint8, 2),
    good("quantize", "div qint32", bf16(2, 3, 16), bf16(2), bf16(2), torch.qint32, 0),
    good("quantize", "div int32", f16(2, 3, 16), f32(2), None, torch.int32, -3),
    good("quantize", "div transposed input", f32(16, 3).t(), f32(3), None, torch.int8, 0),
]
WRONG = [
    bad("quantize", "input", "mul input of none", f16(), f16(1), None, torch.qint8, -1, False),
    bad(
        "quantize", "input", "mul nine dimensions", f16(1, 1, 1, 1, 1, 1, 1, 1, 8), f16(8), None, torch.qint8, -1, False
    ),
    bad("quantize", "input", "mul input int8", i8(3, 16), f16(16), None, torch.qint8, -1, False),
    bad("quantize", "scales", "mul scales int32", f16(3, 16), i32(16), None, torch.qint8, -1, False),
    bad("quantize", "scales", "mul scales of another rank", f16(2, 3, 16), f16(3, 16), None, torch.qint8, -1, False),
    bad("quantize", "scales.size", "mul scales too short", f16(3, 16), f16(8), None, torch.qint8, -1, False),
    bad("quantize", "scales.size", "mul scales of the other axis", f16(3, 16), f16(16), None, torch.qint8, -2, False),
    bad("quantize", "scales.size", "mul two long dimensions", f16(3, 16), f16(3, 16), None, torch.qint8, -1, False),
    bad("quantize", "zero_points.size", "mul other length", f16(3, 16), f16(16), f16(1), torch.qint8, -1, False),
    bad("quantize", "zero_points", "mul other dtype", f16(3, 16), f16(16), f32(16), torch.qint8, -1, False),
    bad("quantize", "zero_points", "mul other rank", f16(3, 16), f16(16), f16(1, 16), torch.qint8, -1, False),
    bad("quantize", "axis", "mul axis -3", f16(2, 3, 16), f16(16), None, torch.qint8, -3, False),
    bad("quantize", "axis", "mul axis beyond rank", f16(3, 16), f16(16), None, torch.qint8, 2, False),
    bad("quantize", "axis", "mul axis -2 of a vector", f16(16), f16(16), None, torch.qint8, -2, False),
    bad("quantize", "dtype", "mul quint8", f16(3, 16), f16(16), None, torch.quint8, -1, False),
    bad("quantize", "dtype", "mul int32", f16(3, 16), f16(16), None, torch.int32, -1, False),
    bad("quantize", "input.size(-1)", "mul width not of eights", f16(3, 12), f16(12), None, INT4, -1, False),
    bad("quantize", "scales", "div scales of two dimensions", f16(3, 16), f32(3, 1), None, torch.qint8, 0),
    bad("quantize", "zero_points", "div zero points of two", f16(3, 16), f32(3), small32(3, 1), torch.qint8, 0),
    bad("quantize", "axis", "div axis beyond rank", f16(3, 16), f32(3), None, torch.qint8, 2),
    bad("quantize", "axis", "div axis -3", f16(3, 16), f32(3), None, torch.qint8, -3),
    bad(
        "quantize",
        "zero_points.size(0)",
        "div one zero point",
        f16(3, 4),
        f32(4),
        small32(1),
        torch.qint8,
    ),
    bad("quantize", "dtype", "div quint4x2", f16(3, 16), f32(16), None, INT4, 1),
    bad("quantize", "dtype", "div float16", f16(3, 16), f32(16), None, torch.float16, 1),
    bad("quantize", "dtype", "div unknown number", f16(3, 16), f32(16), None, 999, 1),
    bad("quantize", "scales.size(0)", "div scales too short", f16(3, 16), f32(8), None, torch.qint8, 1),
    bad("quantize", "zero_points.size(0)", "div too short", f16(3, 16), f32(16), small32(8), torch.qint8, 1),
    bad("quantize", "scales", "div scales float16", f16(3, 16), f16(16), None, torch.qint8, 1),
    bad("quantize", "zero_points", "div zero points float32", f16(3, 16), f32(16), f32(16), torch.qint8, 1),
]
WRONG_EAGERLY = [
    bad("quantize", "scales", "mul float32 scales of float16", f16(3, 16), f32(16), None, torch.qint8, -1, False),
    bad("quantize", "scales", "mul float16 scales of bfloat16", bf16(3, 16), f16(16), f16(16), INT4, -1, False),
    bad("quantize", "input", "div bfloat16 scales of float16", f16(3, 16), bf16(16), None, torch.qint8, 1),
    bad("quantize", "scales", "div bfloat16 zero points", bf16(3, 16), f32(16), bf16(16), torch.qint8, 1),
    bad("quantize", "zero_points", "div integer zero points", bf16(3, 16), bf16(16), i8(16), torch.qint8, 1),
]


def golden(kind: torch.dtype, axis: int, div_mode: bool, scales: torch.Tensor, zeros: torch.Tensor) -> Case:
    def call(x: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_quantize(x, scales, zero_points, kind, axis, div_mode)

    return call, (f16(2, 3, 16), scales, zeros)


GOLDEN = {
    "quantize_multiplying-int8": golden(torch.qint8, -1, False, f16(16), f16(16)),
    "quantize_multiplying-int4": golden(INT4, -2, False, f32(3), f32(3)),
    "quantize_dividing-int8": golden(torch.qint8, -1, True, f32(16), small32(16)),
    "quantize_dividing-uint8": golden(torch.quint8, 1, True, f32(3), small32(3)),
    "quantize_dividing-int32": golden(torch.qint32, 0, True, f32(1), small32(1)),
}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=4)))
    divide = draw(st.booleans())
    axis = draw(st.integers(-3, 4)) if draw(NEAR) < 3 else -1
    where = axis if divide else min(axis, -1)
    length = draw(st.sampled_from([1, shape[where] if -len(shape) <= where < len(shape) else 2]))
    full = (1,) * (len(shape) - 1) + (length,) if where == -1 and draw(NEAR) < 2 else (length,)
    scales = tensor(draw, full, *((torch.float32, torch.bfloat16) if divide else FLOATS))
    kinds = (torch.int8, torch.uint8, torch.int32) if divide else (scales.dtype,)
    zero_points = optional(draw, tuple(scales.shape), *kinds)
    spellings = [torch.qint8, torch.int8, torch.quint8, torch.qint32] if divide else [torch.qint8, torch.quint4x2]
    spelling = mostly(draw, draw(st.sampled_from(spellings)), st.sampled_from([torch.float32, torch.quint4x2, 999]))
    return (tensor(draw, shape, *FLOATS), scales, zero_points, spelling, axis, divide), {}


CALLS = {"npu_quantize": calls()}

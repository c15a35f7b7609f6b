"""Calls of npu_quant_scatter and npu_quant_scatter_."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import Draw, mostly, optional, tensor
from support.call_table import Call, Statement
from support.numpy_rules import floats, integers
from support.tensors import bf16, f16, f32, i8, small32

OP = "npu_quant_scatter"


def at(*values: Any, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def both(label: str, argument: str, *args: Any, **kwargs: Any) -> list[Call]:
    return [Call(name, label, args, kwargs, argument) for name in (OP, f"{OP}_")]


X, INDICES, ROWS, SCALES = i8(2, 5, 32), at(3, 0), bf16(2, 2, 32), bf16(32)
GOOD = [
    *both("bfloat16", "", X, INDICES, ROWS, SCALES),
    *both("with zero points", "", X, INDICES.long(), ROWS, bf16(1, 1, 32), bf16(1, 1, 32), -2, -1, "update"),
    *both("float16", "", X, INDICES, f16(2, 2, 32), f32(32), small32(32), dst_type=torch.int8),
    *both("a batch of many", "", i8(3, 5, 32), at([2, 1]), f16(1, 2, 32), f32(32)),
    *both("another axis", "", i8(2, 5, 3, 32), at(1, 4), bf16(2, 1, 3, 32), SCALES, axis=1, quant_axis=3),
    *both("scales of zero", "", X, INDICES, ROWS, torch.zeros(32, dtype=torch.bfloat16), round_mode=None),
]
WRONG = [
    *both("input float16", "input", f16(2, 5, 32), INDICES, ROWS, SCALES),
    *both("input of two dimensions", "input", i8(2, 32), INDICES, bf16(2, 32), SCALES),
    *both("scales of nine dimensions", "quant_scales", X, INDICES, ROWS, bf16(*[1] * 8, 32)),
    *both("updates float32", "updates", X, INDICES, f32(2, 2, 32), SCALES),
    *both("updates of another rank", "updates", X, INDICES, bf16(2, 32), SCALES),
    *both("the batch as axis", "axis", X, INDICES, bf16(2, 5, 32), SCALES, axis=0),
    *both("the last axis", "axis", X, INDICES, ROWS, SCALES, axis=-1),
    *both("indices float32", "indices", X, f32(2), ROWS, SCALES),
    *both("indices short", "indices.size(0)", X, at(3), ROWS, SCALES),
    *both("updates too long", "updates.size(1)", X, INDICES, bf16(2, 6, 32), SCALES),
    *both("updates too narrow", "updates.size(2)", X, INDICES, bf16(2, 2, 16), bf16(16)),
    *both("columns not in blocks", "input.size(-1)", i8(2, 5, 16), INDICES, bf16(2, 2, 16), bf16(16)),
    *both("quantised along another axis", "quant_axis", X, INDICES, ROWS, SCALES, quant_axis=1),
    *both("added", "reduce", X, INDICES, ROWS, SCALES, reduce="add"),
    *both("to uint8", "dst_type", X, INDICES, ROWS, SCALES, dst_type=torch.uint8),
    *both("rounded otherwise", "round_mode", X, INDICES, ROWS, SCALES, round_mode="round"),
    *both("scales of another dtype", "quant_scales", X, INDICES, ROWS, f32(32)),
    *both("scales of half updates", "quant_scales", X, INDICES, f16(2, 2, 32), bf16(32)),
    *both("a scale too few", "quant_scales.numel()", X, INDICES, ROWS, bf16(31)),
    *both("zero points of another dtype", "quant_zero_points", X, INDICES, ROWS, SCALES, small32(32)),
    *both("a zero point alone", "quant_zero_points.numel()", X, INDICES, ROWS, SCALES, bf16(1)),
]
WRONG_VALUES = [Call(OP, "beyond the end", (X, at(0, 4), ROWS, SCALES), {}, "indices[1]")]


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    batch, length = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 3]))
    dtype = draw(st.sampled_from([torch.bfloat16, torch.float16]))
    halves = dtype == torch.bfloat16
    scales = tensor(draw, (32,), torch.bfloat16 if halves else torch.float32)
    zero_points = optional(draw, (32,), torch.bfloat16 if halves else torch.int32)
    updates = tensor(draw, (batch, draw(st.sampled_from([1, length])), 32), dtype)
    axis = mostly(draw, -2, st.integers(-4, 3))
    indices = torch.zeros(batch, dtype=torch.int32)
    return (tensor(draw, (batch, length, 32), torch.int8), indices, updates, scales, zero_points, axis), {}


CALLS = {OP: calls(), f"{OP}_": calls()}


def expected(
    x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None
) -> Any:
    with np.errstate(all="ignore"):
        values = floats(updates) / floats(scales)
        values = integers(values if zeros is None else values + floats(zeros), "int8")
    out = x.numpy().copy()
    for batch, start in enumerate(indices.tolist()):
        out[batch, start : start + updates.size(1)] = values[batch]
    return out


@st.composite
def data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    length, halves = draw(st.integers(1, 5)), draw(st.booleans())
    updates = torch.randn(3, length, 32, generator=generator) * draw(st.sampled_from([1.0, 100.0]))
    scales = torch.rand(32, generator=generator) * draw(st.sampled_from([1.0, 1e-2]))
    zeros = torch.randint(-9, 9, (32,), generator=generator, dtype=torch.int32) if draw(st.booleans()) else None
    x = torch.randint(-128, 128, (3, 5, 32), generator=generator, dtype=torch.int8)
    indices = torch.randint(0, 6 - length, (3,), generator=generator, dtype=torch.int32)
    if halves:
        return (x, indices, updates.bfloat16(), scales.bfloat16(), None if zeros is None else zeros.bfloat16()), {}
    return (x, indices, updates.half(), scales, zeros), {}


STATEMENTS = {OP: Statement(expected, data()), f"{OP}_": Statement(expected, data(), sample=10)}
GOLDEN = {"quant_scatter": (lambda *args: torch_npu.npu_quant_scatter(*args), (X, INDICES, ROWS, SCALES))}

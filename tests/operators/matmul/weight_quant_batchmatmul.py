"""Calls of npu_weight_quant_batchmatmul."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import Draw, mostly, optional, tensor
from support.call_table import Case, Statement, bad, good, packed
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, i8, i32, nz, stored

OP = "weight_quant_batchmatmul"
X, W, S = f16(4, 64), i8(64, 16), f16(16)
OFFSETS = torch.arange(-64, 64, dtype=torch.int32)[::2]
GOOD = [
    good(OP, "int8, a scale a column", X, W, S),
    good(OP, "int8, all of it", X, W, f16(1, 16), f16(1, 16), packed(16), None, f16(16)),
    good(OP, "int8, one scale", bf16(4, 64), W, bf16(1), bf16(1), bias=f32(1, 16)),
    good(OP, "int8, one scale of two dimensions", X, W, f16(1, 1), f16(1, 1)),
    good(OP, "int8 transposed", X, i8(16, 64).t(), f16(16, 1).t(), f16(16, 1).t()),
    good(OP, "int8 groups, the last one short", f16(4, 40), i8(40, 16), f16(2, 16), antiquant_group_size=32),
    good(OP, "int8 transposed groups", f16(4, 96), i8(16, 96).t(), f16(16, 3).t(), antiquant_group_size=32),
    good(OP, "transposed x", bf16(64, 4).t(), W, bf16(16), inner_precise=1),
    good(OP, "int4", X, i32(64, 2), S, S),
    good(OP, "int4 view", X, i32(16, 8).t(), f16(16, 1).t(), bias=f16(16)),
    good(OP, "int4 groups", bf16(4, 64), i32(64, 2), bf16(2, 16), bf16(2, 16), antiquant_group_size=32),
    good(OP, "int8 result, float scale", X, W, S, quant_scale=f32(16), quant_offset=f32(16)),
    good(OP, "int8 result, one float scale", bf16(4, 64), i32(64, 2), bf16(16), quant_scale=f32(1)),
    good(OP, "int8 result, a row", bf16(4, 64), W, bf16(16), quant_scale=f32(1, 16), quant_offset=f32(1, 16)),
    good(OP, "int4 groups in FRACTAL_NZ", f16(4, 128), nz(i32(128, 8)), f16(2, 64), antiquant_group_size=64),
    good(OP, "int4 view in FRACTAL_NZ", f16(4, 128), nz(i32(64, 16).t()), f16(64, 1).t()),
    good(OP, "int8 in FRACTAL_NZ", X, nz(W), S),
    good(OP, "packed scale", X, i8(64, 64).t(), packed(64), OFFSETS, bias=f16(64)),
    good(OP, "packed scale of two dimensions", X, i8(64, 64).t(), packed(64, 1), OFFSETS.reshape(1, 64)),
    good(OP, "packed scale without offset", X, i8(128, 64).t(), packed(128)),
]
PACKED = (i8(64, 64).t(), packed(64))
WRONG = [
    bad(OP, "x", "x float32", f32(4, 64), W, S),
    bad(OP, "x", "x of three dimensions", f16(1, 4, 64), W, S),
    bad(OP, "x.size(0)", "no row", f16(0, 64), W, S),
    bad(OP, "weight", "weight float16", X, f16(64, 16), S),
    bad(OP, "weight", "weight of three dimensions", X, i8(1, 64, 16), S),
    bad(OP, "weight.size(1)", "no column", X, i8(64, 0), S),
    bad(OP, "weight.size(0)", "other depth", X, i8(32, 16), S),
    bad(OP, "weight.size(0)", "int4 of another depth", X, i32(9, 16), S),
    bad(OP, "weight", "int4 along k, not a view", X, i32(8, 16), S),
    bad(OP, "weight", "int4 along k in one int32", f16(4, 8), i32(1, 1).t(), f16(1)),
    bad(OP, "weight", "int4 along n in a view", X, i32(2, 64).t(), S),
    bad(OP, "k must be at most", "too deep", f16(1, 65536), i8(65536, 1), f16(1)),
    bad(OP, "n must be at most", "too wide", f16(1, 1), i8(1, 65536), f16(1)),
    bad(OP, "m must be at most", "too many rows of a transposed x", f16(2, 65536).t(), i8(2, 1), f16(1)),
    bad(OP, "antiquant_scale", "scale float32", X, W, f32(16)),
    bad(OP, "antiquant_scale", "scale of three dimensions", X, W, f16(1, 1, 16)),
    bad(OP, "antiquant_scale.size(-1)", "scale short", X, W, f16(8)),
    bad(OP, "antiquant_scale.size(0)", "rows of scales without groups", X, W, f16(2, 16)),
    bad(OP, "antiquant_offset", "offset of another dtype", X, W, S, bf16(16)),
    bad(OP, "antiquant_offset", "offset of another rank", X, W, S, f16(1, 16)),
    bad(OP, "antiquant_offset.size(0)", "offset short", X, W, S, f16(1)),
    bad(OP, "antiquant_group_size", "group of 16", X, W, f16(4, 16), antiquant_group_size=16),
    bad(OP, "antiquant_group_size", "a negative group", X, W, f16(4, 16), antiquant_group_size=-32),
    bad(OP, "antiquant_group_size", "a group as long as k", X, W, f16(1, 16), antiquant_group_size=64),
    bad(OP, "antiquant_scale", "groups with a row of scales", X, W, S, antiquant_group_size=32),
    bad(OP, "antiquant_scale.size(0)", "a group missing", X, W, f16(1, 16), antiquant_group_size=32),
    bad(OP, "antiquant_scale.size(1)", "groups of few columns", X, W, f16(2, 8), antiquant_group_size=32),
    bad(OP, "x", "packed scale with bfloat16", bf16(4, 64), *PACKED),
    bad(OP, "weight", "packed scale with int4", X, i32(64, 8).t(), packed(64)),
    bad(OP, "x", "packed scale with a transposed x", f16(64, 4).t(), *PACKED),
    bad(OP, "weight", "packed scale with a weight that is not transposed", X, i8(64, 64), packed(64)),
    bad(OP, "m must be at most", "packed scale with 97 rows", f16(97, 64), *PACKED),
    bad(OP, "k must be a multiple", "packed scale with k of 32", f16(4, 32), i8(64, 32).t(), packed(64)),
    bad(OP, "n must be a multiple", "packed scale with n of 32", X, i8(32, 64).t(), packed(32)),
    bad(OP, "antiquant_scale.size(-1)", "one packed scale", X, i8(64, 64).t(), packed(1)),
    bad(OP, "antiquant_offset", "packed scale with a float offset", X, *PACKED, f16(64)),
    bad(OP, "quant_scale", "packed scale and an int8 result", X, *PACKED, quant_scale=packed(64)),
    bad(OP, "quant_scale", "quant_scale float16", X, W, S, quant_scale=f16(16)),
    bad(OP, "quant_scale.size(0)", "quant_scale short", X, W, S, quant_scale=f32(8)),
    bad(OP, "quant_scale", "quant_scale of three dimensions", X, W, S, quant_scale=f32(1, 1, 16)),
    bad(OP, "quant_scale.size(0)", "rows of quant_scale", X, W, S, quant_scale=packed(16, 2)),
    bad(OP, "quant_offset", "quant_offset alone", X, W, S, quant_offset=f32(16)),
    bad(OP, "quant_offset", "quant_offset float16", X, W, S, quant_scale=f32(16), quant_offset=f16(16)),
    bad(OP, "quant_offset", "quant_offset of another rank", X, W, S, quant_scale=f32(16), quant_offset=f32(1, 16)),
    bad(OP, "quant_offset.size(0)", "quant_offset short", X, W, S, quant_scale=f32(16), quant_offset=f32(1)),
    bad(OP, "bias", "bias float32 with float16", X, W, S, bias=f32(16)),
    bad(OP, "bias", "bias bfloat16 with bfloat16", bf16(4, 64), W, bf16(16), bias=bf16(16)),
    bad(OP, "bias.size(0)", "bias short", X, W, S, bias=f16(1)),
    bad(OP, "bias.size(1)", "a row of bias short", X, W, S, bias=f16(1, 8)),
    bad(OP, "bias", "bias of three dimensions", X, W, S, bias=f16(1, 1, 16)),
    bad(OP, "inner_precise", "inner_precise 2", X, W, S, inner_precise=2),
    bad(OP, "weight_dtype", "weight_dtype of Ascend 950", X, W, S, weight_dtype=1),
]
WRONG_EAGERLY = [
    bad(OP, "antiquant_scale", "scale of another half", X, W, bf16(16)),
    bad(OP, "x", "every other column of x", f16(4, 128)[:, ::2], W, S),
    bad(OP, "weight", "every other column of weight", X, i8(64, 32)[:, ::2], S),
    bad(OP, "antiquant_scale", "transposed scales", X, W, f16(16, 2).t(), antiquant_group_size=32),
    bad(OP, "antiquant_offset", "transposed offsets", X, W, f16(2, 16), f16(16, 2).t(), antiquant_group_size=32),
    bad(OP, "bias", "every other bias", X, W, S, bias=f16(32)[::2]),
]
WRONG_VALUES = [
    bad(OP, "antiquant_offset", "offset of nine bits", X, *PACKED, torch.full((64,), 128, dtype=torch.int32)),
]

X4, W4 = f16(4, 128), nz(i32(128, 8))
GROUPED = f16(2, 64)
WRONG_FORMATS = [
    bad(OP, "weight", "weight in NC1HWC0", X, stored(W, 3), S),
    bad(OP, "x", "x in FRACTAL_NZ", nz(X), W, S),
    bad(OP, "antiquant_group_size", "int4 in groups of 32", X4, W4, f16(4, 64), antiquant_group_size=32),
    bad(OP, "x", "a transposed x", f16(128, 4).t(), W4, GROUPED, antiquant_group_size=64),
    bad(OP, "weight", "groups in a transposed weight", X4, nz(i32(64, 16).t()), GROUPED, antiquant_group_size=64),
    bad(OP, "k must be", "groups, the last one short", f16(4, 96), nz(i32(96, 8)), GROUPED, antiquant_group_size=64),
    bad(OP, "n must be", "groups of 48 columns", X4, nz(i32(128, 6)), f16(2, 48), antiquant_group_size=64),
    bad(OP, "antiquant_scale", "int4 with one scale", X4, W4, f16(1)),
    bad(OP, "weight", "int4 without groups, not transposed", X4, W4, f16(64)),
    bad(OP, "quant_scale", "int8 results", X4, nz(i32(64, 16).t()), f16(64), quant_scale=f32(64)),
]


def golden(*args: torch.Tensor, **options: Any) -> Case:
    return lambda x, weight, scale: torch_npu.npu_weight_quant_batchmatmul(x, weight, scale, **options), args


GOLDEN: dict[str, Case] = {
    "weight_quant_batchmatmul-int8": golden(X, W, S),
    "weight_quant_batchmatmul-int4-groups": golden(X, i32(64, 2), f16(2, 16), antiquant_group_size=32),
    "weight_quant_batchmatmul-int4-view": (
        lambda x, weight, scale: torch_npu.npu_weight_quant_batchmatmul(x, weight.t(), scale),
        (X, i32(16, 8), S),
    ),
    "weight_quant_batchmatmul-quantised": (
        lambda x, weight, scale, quant: torch_npu.npu_weight_quant_batchmatmul(x, weight, scale, quant_scale=quant),
        (X, W, S, f32(16)),
    ),
}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    half = draw(st.sampled_from([torch.float16, torch.bfloat16]))
    m, k, n = draw(st.sampled_from([1, 3])), draw(st.sampled_from([8, 40, 64])), draw(st.sampled_from([8, 64]))
    x = tensor(draw, (m, k), half)
    weight = mostly(draw, (torch.ones(k, n, dtype=torch.int8)), st.just(torch.ones(k, n // 8, dtype=torch.int32)))
    if draw(st.booleans()):
        weight = weight.mT.contiguous().mT
    groups = draw(st.sampled_from([0, 0, 32]))
    shape = (-(-k // groups), n) if groups else draw(st.sampled_from([(1,), (n,), (1, n)]))
    options = {
        "antiquant_offset": optional(draw, shape, half),
        "quant_scale": optional(draw, (n,), torch.float32),
        "bias": optional(draw, (n,), torch.float16 if half == torch.float16 else torch.float32),
        "antiquant_group_size": groups,
    }
    return (x, weight, tensor(draw, shape, half)), options


CALLS = {"npu_weight_quant_batchmatmul": calls()}


def _elements(weight: torch.Tensor, depth: int) -> Any:
    """The integers one by one: an int32 has eight, along its rows, or along its columns where it is (k/8, n)."""
    whole = weight.numpy().astype(np.int64)
    if weight.dtype != torch.int32:
        return whole
    nibbles = [((whole >> (4 * index)) & 15 ^ 8) - 8 for index in range(8)]
    along_k = weight.size(0) != depth
    return np.stack(nibbles, 1 if along_k else 2).reshape((depth, -1) if along_k else (depth, weight.size(1) * 8))


def expected(
    x: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    offset: torch.Tensor | None = None,
    quant_scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    antiquant_group_size: int = 0,
) -> Any:
    """Every step in float64, rounded as the steps of a kernel round; the data keeps the sums exact."""
    integers, half = _elements(weight, x.size(1)), x.dtype
    rows = np.arange(x.size(1)) // antiquant_group_size if antiquant_group_size else np.zeros(x.size(1), np.int64)

    def of_rows(parameters: torch.Tensor) -> Any:
        return floats(parameters.reshape(-1, parameters.size(-1)))[rows].astype(np.float64)

    def rounded(values: Any, dtype: torch.dtype) -> Any:
        return torch.from_numpy(np.ascontiguousarray(values)).to(dtype).double().numpy()

    restored = integers.astype(np.float64)
    if offset is not None:
        restored = rounded(restored + of_rows(offset), half if half == torch.float16 else torch.float32)
    restored = rounded(rounded(restored * of_rows(scale), torch.float32), half)
    values = floats(x).astype(np.float64) @ restored
    if bias is not None:
        values = values + floats(bias)
    if quant_scale is None:
        return torch.from_numpy(values).float().to(half)
    word = quant_scale.numpy().astype(np.int64)
    multiplier = (word & 0xFFFFE000).astype(np.uint32).view(np.float32)
    zero = ((word >> 37) & 0x1FF ^ 0x100) - 0x100
    nine = np.clip(np.rint(values.astype(np.float32) * multiplier), -256, 255)
    return np.clip(nine + zero, -128, 127).astype(np.int8)


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Numbers of few bits: their products round, and sums of few of those are exact in float32, in any order."""
    half = draw(st.sampled_from([torch.float16, torch.bfloat16]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    k, n = draw(st.sampled_from([8, 40, 64])), draw(st.sampled_from([8, 16]))

    def whole(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=generator)

    x = (whole(-16, 17, draw(st.sampled_from([1, 3])), k) / 8).to(half)
    weight = draw(
        st.sampled_from(
            [
                whole(-128, 128, k, n).to(torch.int8),
                whole(-128, 128, n, k).to(torch.int8).t(),
                whole(-(2**31), 2**31, k, n // 8).to(torch.int32),
                whole(-(2**31), 2**31, n, k // 8).to(torch.int32).t(),
            ]
        )
    )
    groups = draw(st.sampled_from([0, 32])) if k > 32 else 0
    shape = (-(-k // groups), n) if groups else draw(st.sampled_from([(1,), (1, 1), (n,), (1, n)]))
    options: dict[str, Any] = {"antiquant_group_size": groups}
    if draw(st.booleans()):
        options["antiquant_offset"] = (whole(-9, 9, *shape) / 2).to(half)
    if draw(st.booleans()):
        options["bias"] = (whole(-99, 99, n) / 4).to(torch.float16 if half == torch.float16 else torch.float32)
    if draw(st.booleans()):
        options["quant_scale"] = packed(n)
    scale = (torch.exp2(whole(-4, 3, *shape)) * whole(8, 16, *shape) / 8).to(half)
    return (x, weight, scale), options


def _by_position(x: Any, weight: Any, scale: Any, **options: Any) -> Any:
    return expected(x, weight, scale, options.pop("antiquant_offset", None), **options)


STATEMENTS = {"npu_weight_quant_batchmatmul": Statement(_by_position, with_data())}

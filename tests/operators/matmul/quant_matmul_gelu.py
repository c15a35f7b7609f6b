"""Calls of npu_quant_matmul_gelu."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.arrays import exp, int4_elements, numbers, rounded
from support.call_strategies import SIZES, Draw, mostly, optional, tensor
from support.call_table import Case, Statement, bad, good
from support.tensors import bf16, f16, f32, i8, i32, small32

OP = "quant_matmul_gelu"
A, B, ROWS, COLUMNS = i8(4, 32), i8(32, 16), f32(4) / 99, f32(16) / 99
A4, B4 = i32(4, 4), i32(32, 2)
TANH = {"approximate": "gelu_tanh"}
GOOD = [
    good(OP, "int8", A, B, ROWS, COLUMNS),
    good(OP, "by the tangent", A, B, ROWS, COLUMNS, **TANH),
    good(OP, "one scale for all columns", A, B, ROWS, f32(1) / 99, bias=small32(16)),
    good(OP, "bfloat16 scale", A, B, ROWS, bf16(16) / 99, bias=f16(16), **TANH),
    good(OP, "bfloat16 bias", A, B, ROWS, COLUMNS, bias=bf16(16)),
    good(OP, "batches", i8(3, 4, 32), i8(3, 32, 16), ROWS, COLUMNS, bias=f32(3, 1, 16)),
    good(OP, "a transposed view", i8(2, 1, 4, 32), i8(16, 32).t(), ROWS, COLUMNS),
    good(OP, "int4", A4, B4, ROWS, COLUMNS, bias=small32(16)),
    good(OP, "int4 along k", A4, i32(16, 4).t(), ROWS, bf16(16) / 99, **TANH),
    good(OP, "no rows", i8(0, 32), B, f32(0), COLUMNS),
]
WRONG = [
    bad(OP, "x1", "x1 float16", f16(4, 32), B, ROWS, COLUMNS),
    bad(OP, "x2", "x2 of another dtype", A, B4, ROWS, COLUMNS),
    bad(OP, "x1", "x1 of one dimension", i8(32), B, ROWS, COLUMNS),
    bad(OP, "x2", "x2 of seven dimensions", A, i8(1, 1, 1, 1, 1, 32, 16), ROWS, COLUMNS),
    bad(OP, "x2", "int4 x2 of three dimensions", A4, i32(1, 32, 2), ROWS, COLUMNS),
    bad(OP, "x2.size(-2)", "another depth", A, i8(16, 16), ROWS, COLUMNS),
    bad(OP, "x2.size(-2)", "another depth of int4", A4, i32(31, 2), ROWS, COLUMNS),
    bad(OP, "x1 and x2", "batches apart", i8(2, 4, 32), i8(3, 32, 16), ROWS, COLUMNS),
    bad(OP, "x1.size(-1)", "too deep", i8(1, 65536), i8(65536, 1), f32(1), f32(1)),
    bad(OP, "x2.size(-1)", "too wide", i8(1, 1), i8(1, 65536), f32(1), f32(1)),
    bad(OP, "x1_scale", "x1_scale bfloat16", A, B, bf16(4), COLUMNS),
    bad(OP, "x1_scale", "x1_scale of two dimensions", A, B, f32(4, 1), COLUMNS),
    bad(OP, "x1_scale.size(0)", "x1_scale short", A, B, f32(3), COLUMNS),
    bad(OP, "x2_scale", "x2_scale float16", A, B, ROWS, f16(16)),
    bad(OP, "x2_scale", "x2_scale of two dimensions", A, B, ROWS, f32(1, 16)),
    bad(OP, "x2_scale.size(0)", "x2_scale short", A, B, ROWS, f32(15)),
    bad(OP, "bias", "bias int8", A, B, ROWS, COLUMNS, bias=i8(16)),
    bad(OP, "bias", "float bias for int4", A4, B4, ROWS, COLUMNS, bias=f32(16)),
    bad(OP, "bias", "bias of two dimensions", A, B, ROWS, COLUMNS, bias=f32(1, 16)),
    bad(OP, "bias.size(-1)", "bias short", A, B, ROWS, COLUMNS, bias=f32(15)),
    bad(OP, "approximate", "another function", A, B, ROWS, COLUMNS, approximate="tanh"),
    bad(OP, "approximate", "no function", A, B, ROWS, COLUMNS, approximate=""),
]


def golden(x1: torch.Tensor, x2: torch.Tensor) -> Case:
    def call(x1: torch.Tensor, x2: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_quant_matmul_gelu(x1, x2, rows, columns)

    return call, (x1, x2, ROWS, COLUMNS)


GOLDEN = {"quant_matmul_gelu-int8": golden(A, B), "quant_matmul_gelu-int4": golden(A4, B4)}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    m, k, n, int4 = draw(SIZES), draw(SIZES), draw(SIZES), draw(st.booleans())
    kind, deep, wide = (torch.int32, 8 * k, 8 * n) if int4 else (torch.int8, k, n)
    x1, x2 = tensor(draw, (m, k), kind), tensor(draw, (deep, n), kind)
    scales = tensor(draw, (m,), torch.float32), tensor(draw, (wide,), torch.float32, torch.bfloat16)
    options = {"approximate": mostly(draw, "gelu_tanh", st.sampled_from(["gelu_erf", "none", None]))}
    return (x1, x2, *scales), {**options, "bias": optional(draw, (wide,), torch.int32)}


CALLS = {f"npu_{OP}": calls()}


@st.composite
def right(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    m, k, n, int4 = draw(st.integers(1, 4)), draw(st.integers(1, 9)), draw(st.integers(1, 3)), draw(st.booleans())
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def integers(kind: torch.dtype, *shape: int) -> torch.Tensor:
        end = 128 if kind == torch.int8 else 2**31
        return torch.randint(-end, end, shape, generator=generator).to(kind)

    kind, deep, wide = (torch.int32, 8 * k, 8 * n) if int4 else (torch.int8, k, n)
    x1, x2 = integers(kind, m, k), integers(kind, deep, n)
    scale = (torch.randn(draw(st.sampled_from([1, wide])), generator=generator) / 9).to(
        draw(st.sampled_from([torch.float32, torch.bfloat16]))
    )
    bias = torch.randint(-99, 99, (wide,), generator=generator).to(
        torch.int32 if int4 else draw(st.sampled_from([torch.int32, torch.float16, torch.float32, torch.bfloat16]))
    )
    options = {"bias": draw(st.sampled_from([None, bias])), "approximate": draw(st.sampled_from(["gelu_tanh", None]))}
    return (x1, x2, torch.rand(m, generator=generator) / 9, scale), options


def expected(x1: Any, x2: Any, x1_scale: Any, x2_scale: Any, bias: Any, approximate: str | None) -> Any:
    """Step by step, each in float32."""
    elements = int4_elements if x1.dtype == torch.int32 else numbers
    total = elements(x1).astype(np.int64) @ elements(x2).astype(np.int64)
    whole = bias is not None and bias.dtype == torch.int32
    values = (total + bias.numpy() if whole else total).astype(np.float32)
    values = values * numbers(x2_scale) * x1_scale.numpy()[:, None]
    if bias is not None and not whole:
        values = values + numbers(bias).astype(np.float32)
    activated = by_tangent(values) if approximate == "gelu_tanh" else by_error_function(values)
    wide = torch.bfloat16 in (x2_scale.dtype, None if bias is None else bias.dtype)
    return rounded(activated, torch.bfloat16 if wide else torch.float16)


def by_tangent(v: Any) -> Any:
    inner = v + v * v * v * np.float32(0.044715)
    return v / (np.float32(1) + exp(inner * np.float32(-1.5957691)))


def by_error_function(v: Any) -> Any:
    v = np.maximum(v, np.float32(-13.15))
    low = np.minimum(v, np.float32(5.751))
    square, total = low * low, np.float32(-0.3512339572e-8)
    for number in (0.2645266170e-6, -0.7929488134e-5, 0.1106123840e-3, 0.6518995814e-4, -0.7266616915e-1, -1.595769883):
        total = total * square + np.float32(number)
    return v / (np.float32(1) + exp(total * low))


STATEMENTS = {f"npu_{OP}": Statement(expected, right())}

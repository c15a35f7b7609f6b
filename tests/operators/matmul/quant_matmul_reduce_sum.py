"""Calls of npu_quant_matmul_reduce_sum."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import SIZES, Draw, optional, tensor
from support.call_table import Case, Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, i8, i32, nz

OP = "quant_matmul_reduce_sum"
X1, X2 = i8(3, 4, 32), nz(i8(3, 32, 16))
SCALES: dict[str, Any] = {"x1_scale": f32(3, 4), "x2_scale": bf16(16)}
GOOD = [
    good(OP, "three", X1, X2, **SCALES),
    good(OP, "one", i8(1, 4, 32), nz(i8(1, 32, 16)), x1_scale=f32(1, 4), x2_scale=bf16(16)),
    good(OP, "a transposed view", X1, nz(i8(3, 16, 32).mT), **SCALES),
    good(OP, "one of everything", i8(1, 1, 1), nz(i8(1, 1, 1)), x1_scale=f32(1, 1), x2_scale=bf16(1)),
]
WRONG = [
    bad(OP, "x1", "x1 int32", i32(3, 4, 4), X2, **SCALES),
    bad(OP, "x1", "x1 of two dimensions", i8(4, 32), X2, **SCALES),
    bad(OP, "x1.size(0)", "no batch", i8(0, 4, 32), i8(0, 32, 16), x1_scale=f32(0, 4), x2_scale=bf16(16)),
    bad(OP, "x2", "x2 float16", X1, f16(3, 32, 16), **SCALES),
    bad(OP, "x2", "x2 of two dimensions", X1, i8(32, 16), **SCALES),
    bad(OP, "x2.size(0)", "another batch", X1, i8(2, 32, 16), **SCALES),
    bad(OP, "x2.size(1)", "another depth", X1, i8(3, 16, 16), **SCALES),
    bad(OP, "x1_scale", "no x1_scale", X1, X2, x2_scale=bf16(16)),
    bad(OP, "x2_scale", "no x2_scale", X1, X2, x1_scale=f32(3, 4)),
    bad(OP, "x1_scale", "x1_scale bfloat16", X1, X2, x1_scale=bf16(3, 4), x2_scale=bf16(16)),
    bad(OP, "x1_scale", "x1_scale of one dimension", X1, X2, x1_scale=f32(4), x2_scale=bf16(16)),
    bad(OP, "x1_scale.size(1)", "a row too few", X1, X2, x1_scale=f32(3, 3), x2_scale=bf16(16)),
    bad(OP, "x2_scale", "x2_scale float32", X1, X2, x1_scale=f32(3, 4), x2_scale=f32(16)),
    bad(OP, "x2_scale", "x2_scale of two dimensions", X1, X2, x1_scale=f32(3, 4), x2_scale=bf16(1, 16)),
    bad(OP, "x2_scale.size(0)", "x2_scale short", X1, X2, x1_scale=f32(3, 4), x2_scale=bf16(1)),
]

WRONG_FORMATS = [
    bad(OP, "x1", "x1 in FRACTAL_NZ", nz(X1), X2, **SCALES),
    bad(OP, "x2", "x2 in row-major order", X1, X2.clone(), **SCALES),
]


def golden() -> Case:
    def call(x1: torch.Tensor, x2: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_quant_matmul_reduce_sum(x1, x2, x1_scale=one, x2_scale=other)

    return call, (X1, X2, f32(3, 4), bf16(16))


GOLDEN = {"quant_matmul_reduce_sum": golden()}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    b, m, k, n = (draw(SIZES) for _ in range(4))
    options = {
        "x1_scale": optional(draw, (b, m), torch.float32),
        "x2_scale": optional(draw, (n,), torch.bfloat16),
    }
    return (tensor(draw, (b, m, k), torch.int8), tensor(draw, (b, k, n), torch.int8)), options


def expected(x1: torch.Tensor, x2: torch.Tensor, x1_scale: torch.Tensor, x2_scale: torch.Tensor) -> torch.Tensor:
    """Batch by batch, each sum rounded to bfloat16."""
    total: torch.Tensor | None = None
    for left, right, tokens in zip(x1.numpy(), x2.numpy(), floats(x1_scale), strict=True):
        whole = left.astype(np.int64) @ right.astype(np.int64)
        scaled = whole.astype(np.float32) * floats(x2_scale) * tokens[:, None]
        product = torch.from_numpy(scaled).bfloat16()
        total = product if total is None else torch.from_numpy(floats(total) + floats(product)).bfloat16()
    assert total is not None
    return total


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    b, m, k, n = (draw(st.integers(1, size)) for size in (4, 3, 40, 9))
    x1 = torch.randint(-128, 128, (b, m, k), generator=generator, dtype=torch.int8)
    x2 = torch.randint(-128, 128, (b, k, n), generator=generator, dtype=torch.int8)
    scales = torch.randn(b, m, generator=generator), torch.randn(n, generator=generator).bfloat16()
    return (x1, x2), {"x1_scale": scales[0], "x2_scale": scales[1]}


CALLS = {"npu_quant_matmul_reduce_sum": calls()}
STATEMENTS = {"npu_quant_matmul_reduce_sum": Statement(expected, with_data())}

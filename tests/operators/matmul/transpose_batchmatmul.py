"""Calls of npu_transpose_batchmatmul."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import Draw, mostly, tensor
from support.call_table import Case, Statement, bad, good, packed
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, nz, stored

OP = "transpose_batchmatmul"
ROWS_FIRST = {"perm_x1": [1, 0, 2]}
X, W = f16(4, 2, 32), f16(4, 32, 16)
GOOD = [
    good(OP, "float16", X, W),
    good(OP, "spelled out", bf16(4, 2, 32), bf16(4, 32, 16), perm_x1=[0, 1, 2], perm_x2=[0, 1, 2], perm_y=[1, 0, 2]),
    good(OP, "rows first", bf16(3, 4, 32), bf16(4, 32, 16), **ROWS_FIRST),
    good(OP, "rows first in a view", bf16(4, 3, 32).transpose(0, 1), bf16(4, 32, 16), **ROWS_FIRST),
    good(OP, "float32", f32(4, 2, 32), f32(4, 32, 16)),
    good(OP, "the depth of weight last", f16(3, 4, 32), f16(4, 16, 32), perm_x2=[0, 2, 1], **ROWS_FIRST),
    good(OP, "split", X, W, batch_split_factor=2),
    good(OP, "split into all batches", f16(3, 4, 32), W, batch_split_factor=4, **ROWS_FIRST),
    good(OP, "quantised", f16(3, 4, 32), W, scale=packed(64), **ROWS_FIRST),
    good(OP, "quantised by uint64", X, W, scale=packed(64).view(torch.uint64)),
    good(OP, "k of 24, n of 10", f16(4, 2, 24), f16(4, 24, 10)),
    good(OP, "FRACTAL_NZ", bf16(3, 4, 32), nz(bf16(4, 32, 16)), **ROWS_FIRST),
    good(OP, "one batch, one row", f16(1, 1, 16), f16(1, 16, 16), batch_split_factor=None),
    good(OP, "more than 65535 in a row", f16(1, 4096, 16), f16(4096, 16, 16), **ROWS_FIRST),
]
WRONG = [
    bad(OP, "input", "input int8", torch.ones(4, 2, 32, dtype=torch.int8), W),
    bad(OP, "weight", "weight of another dtype", X, bf16(4, 32, 16)),
    bad(OP, "input", "input of two dimensions", f16(2, 32), W),
    bad(OP, "weight", "weight of two dimensions", X, f16(32, 16)),
    bad(OP, "input.size(1)", "no row", f16(4, 0, 32), W),
    bad(OP, "bias", "bias", X, W, bias=f16(16)),
    bad(OP, "perm_x1", "another order of input", X, W, perm_x1=[0, 2, 1]),
    bad(OP, "perm_x2", "another order of weight", X, W, perm_x2=[1, 0, 2]),
    bad(OP, "perm_y", "another order of the result", X, W, perm_y=[0, 1, 2]),
    bad(OP, "batches", "other batches", X, f16(2, 32, 16)),
    bad(OP, "k of weight", "other depth", X, f16(4, 16, 16)),
    bad(OP, "k must be at most", "too deep", f16(1, 1, 65536), f16(1, 65536, 16)),
    bad(OP, "n must be at most", "too wide", f16(1, 1, 16), f16(1, 16, 65536)),
    bad(OP, "b must be at most", "too many batches", f16(65536, 1, 16), f16(65536, 16, 16)),
    bad(OP, "perm_x2", "the depth of weight last beside straight input", X, f16(4, 16, 32), perm_x2=[0, 2, 1]),
    bad(OP, "b * k", "a long row, split", f16(1, 4096, 16), f16(4096, 16, 16), batch_split_factor=2, **ROWS_FIRST),
    bad(OP, "batch_split_factor", "no part", X, W, batch_split_factor=0),
    bad(OP, "batch_split_factor", "a factor of n and not of b", X, W, batch_split_factor=8),
    bad(OP, "batch_split_factor", "split and quantised", X, W, scale=packed(64), batch_split_factor=2),
    bad(OP, "input", "bfloat16, quantised", bf16(4, 2, 32), bf16(4, 32, 16), scale=packed(64)),
    bad(OP, "scale", "scale float32", X, W, scale=f32(64)),
    bad(OP, "scale", "scale of two dimensions", X, W, scale=packed(64, 1)),
    bad(OP, "scale.size(0)", "a scale a column", X, W, scale=packed(16)),
    bad(OP, "b * n", "too many columns in all", f16(4096, 1, 16), f16(4096, 16, 16), scale=packed(65536)),
]
WRONG_FORMATS = [
    bad(OP, "weight", "weight in NC1HWC0", X, stored(W, 3)),
    bad(OP, "input", "input in FRACTAL_NZ", nz(f16(3, 4, 32)), W, **ROWS_FIRST),
    bad(OP, "weight", "float32 in FRACTAL_NZ", f32(3, 4, 32), nz(f32(4, 32, 16)), **ROWS_FIRST),
    bad(OP, "k must not be 1", "FRACTAL_NZ of one row", f16(3, 4, 1), nz(f16(4, 1, 16)), **ROWS_FIRST),
    bad(OP, "n must not be 1", "FRACTAL_NZ of one column", f16(3, 4, 32), nz(f16(4, 32, 1)), **ROWS_FIRST),
    bad(OP, "batch_split_factor", "FRACTAL_NZ, split", f16(3, 4, 32), nz(W), batch_split_factor=2, **ROWS_FIRST),
    bad(OP, "perm_x1", "FRACTAL_NZ, straight input", X, nz(W)),
    bad(OP, "perm_x2", "FRACTAL_NZ, depth last", f16(3, 4, 32), nz(f16(4, 16, 32)), perm_x2=[0, 2, 1], **ROWS_FIRST),
    bad(OP, "b * k", "FRACTAL_NZ, a long row", f16(1, 4096, 16), nz(f16(4096, 16, 16)), **ROWS_FIRST),
]


def golden(*args: torch.Tensor, **options: Any) -> Case:
    return lambda x1, x2: torch_npu.npu_transpose_batchmatmul(x1, x2, **options), args


GOLDEN: dict[str, Case] = {
    "transpose_batchmatmul": golden(bf16(3, 4, 32), bf16(4, 32, 16), **ROWS_FIRST),
    "transpose_batchmatmul-quantised": (
        lambda x1, x2, scale: torch_npu.npu_transpose_batchmatmul(x1, x2, scale=scale),
        (X, W, packed(64)),
    ),
}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    half = draw(st.sampled_from([torch.float16, torch.bfloat16, torch.float32]))
    m, b, n = draw(st.sampled_from([1, 3])), draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([8, 16]))
    rows_first = draw(st.booleans())
    x1 = tensor(draw, (m, b, 16) if rows_first else (b, m, 16), half)
    options = {
        "perm_x1": mostly(draw, [1, 0, 2] if rows_first else [0, 1, 2], st.just([0, 2, 1])),
        "scale": mostly(draw, None, st.just(packed(b * n))),
        "batch_split_factor": mostly(draw, 1, st.sampled_from([0, 2, 3])),
    }
    return (x1, tensor(draw, (b, 16, n), half)), options


def expected(
    x1: torch.Tensor,
    x2: torch.Tensor,
    perm_x1: list[int],
    perm_x2: list[int],
    batch_split_factor: int = 1,
    scale: torch.Tensor | None = None,
) -> Any:
    """Batch by batch; the data keeps the sums exact."""
    one, other = floats(x1).transpose(perm_x1), floats(x2).transpose(perm_x2)
    columns = [left.astype(np.float64) @ right for left, right in zip(one, other, strict=True)]
    rows = np.concatenate(columns, axis=1).astype(np.float32)
    if scale is not None:
        word = scale.numpy()
        nine = np.clip(np.rint(rows * (word & 0xFFFFE000).astype(np.uint32).view(np.float32)), -256, 255)
        return np.clip(nine + ((word >> 37) & 0x1FF), -128, 127).astype(np.int8)[:, None]
    if batch_split_factor > 1:
        return torch.from_numpy(np.stack(np.split(rows, batch_split_factor, axis=1))).to(x1.dtype)
    return torch.from_numpy(rows.reshape(len(rows), len(columns), -1)).to(x1.dtype)


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Numbers of few bits: sums of their products are exact in float32, in any order."""
    kind = draw(st.sampled_from([torch.float16, torch.bfloat16, torch.float32]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    m, b, k, n = draw(st.sampled_from([1, 3])), draw(st.sampled_from([2, 4])), 32, 16

    def few(*shape: int) -> torch.Tensor:
        return (torch.randint(-64, 65, shape, generator=generator) / 16).to(kind)

    form = draw(st.sampled_from(["plain", "transposed", "split", "quantised"]))
    rows_first = form == "transposed" or draw(st.booleans())
    options: dict[str, Any] = {"perm_x1": [1, 0, 2] if rows_first else [0, 1, 2], "perm_x2": [0, 1, 2]}
    if form == "transposed":
        options["perm_x2"] = [0, 2, 1]
    if form == "split":
        options["batch_split_factor"] = 2
    if form == "quantised" and kind == torch.float16:
        options["scale"] = packed(b * n).view(draw(st.sampled_from([torch.int64, torch.uint64])))
    x2 = few(b, n, k) if form == "transposed" else few(b, k, n)
    return (few(m, b, k) if rows_first else few(b, m, k), x2), options


CALLS = {"npu_transpose_batchmatmul": calls()}
STATEMENTS = {"npu_transpose_batchmatmul": Statement(expected, with_data())}

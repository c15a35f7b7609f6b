"""Calls of npu_grouped_matmul_add and of its in-place form."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw, tensor
from support.call_table import Statement, bad
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, f64, nz

OP, INPLACE = "grouped_matmul_add", "grouped_matmul_add_"


def call(ends: Any = (3, 8), make: Any = f16, rows: int = 8) -> tuple[torch.Tensor, ...]:
    return f32(len(ends), 4, 6), make(rows, 4), make(rows, 6), torch.tensor(ends, dtype=torch.int64)


def wrong(argument: str, label: str, position: int | None = None, value: Any = None, **named: Any) -> Any:
    args = list(call())
    if position is not None:
        args[position] = value
    return bad(OP, argument, label, *args, **named)


# GE registers no such node, so that they run eagerly alone: allowed calls are those that are generated below.
WRONG = [
    wrong("input", "float16 sums", 0, f16(2, 4, 6)),
    wrong("input.numel()", "a product too few", 0, f32(1, 4, 6)),
    wrong("x", "float64", 1, f64(8, 4)),
    wrong("x", "three dimensions", 1, f16(1, 8, 4)),
    wrong("weight", "another dtype", 2, bf16(8, 6)),
    wrong("weight", "one dimension of weight", 2, f16(8)),
    wrong("weight.size(0)", "another depth", 2, f16(7, 6)),
    wrong("group_list", "int32", 3, torch.tensor([3, 8], dtype=torch.int32)),
    wrong("group_list", "two dimensions", 3, torch.tensor([[3, 8]])),
    bad(OP, "group_list.size(0)", "too many groups", f32(1025, 1, 1), f16(8, 1), f16(8, 1), torch.zeros(1025).long()),
    wrong("transpose_x", "x as it is", transpose_x=False),
    wrong("transpose_weight", "weight transposed", transpose_weight=True),
    wrong("group_type", "groups of rows", group_type=0),
    wrong("group_list_type", "counts", group_list_type=1),
]
WRONG_FORMATS = [
    wrong("x", "x in FRACTAL_NZ", 1, nz(f16(8, 4))),
    wrong("weight", "weight in FRACTAL_NZ", 2, nz(f16(8, 6))),
]
WRONG_VALUES = [
    wrong("group_list", "falling ends", 3, torch.tensor([5, 3])),
    wrong("the groups of group_list", "rows that x lacks", 3, torch.tensor([3, 9])),
]


def expected(summed: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, group_list: torch.Tensor) -> Any:
    out, start = summed.double().numpy().copy().reshape(-1, x.shape[1], weight.shape[1]), 0
    for group, end in enumerate(group_list.tolist()):
        out[group] += floats(x[start:end]).astype(np.float64).T @ floats(weight[start:end])
        start = end
    return out.reshape(summed.shape)


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    ends = sorted(draw(st.integers(0, 8)) for _ in range(3))
    summed, *rest = call(ends, draw(st.sampled_from([f16, bf16])))
    return (summed.reshape(12, 6) if draw(st.booleans()) else summed, *rest), {}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    summed, x, weight, ends = call()
    drawn = tensor(draw, (8, 4), x.dtype), tensor(draw, (8, 6), weight.dtype)
    return (tensor(draw, tuple(summed.shape), summed.dtype), *drawn, ends), {}


CALLS = {f"npu_{OP}": calls()}
# A sum of at most nine in float32.
STATEMENTS = {
    f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-21),
    f"npu_{INPLACE}": Statement(expected, with_data(), bound=2.0**-21),
}

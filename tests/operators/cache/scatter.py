"""Calls of npu_scatter_nd_update and scatter_update, and of their in-place forms."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import SIZES, Draw, tensor
from support.call_table import Call, Statement
from support.tensors import bf16, f16, f32, i8, small32

I64 = torch.int64


def at(*values: Any, dtype: torch.dtype = I64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def both(op: str, label: str, argument: str, *args: Any) -> list[Call]:
    return [Call(name, label, args, {}, argument) for name in (op, f"{op}_")]


ND, ROWS = "npu_scatter_nd_update", "scatter_update"
GOOD = [
    *both(ND, "rows", "", bf16(6, 4), at([1], [4]), bf16(2, 4)),
    *both(ND, "elements", "", f16(6, 4), at([1, 2], [5, 0], dtype=torch.int32), f16(2)),
    *both(ND, "blocks of rows", "", i8(6, 2, 4), at([[5], [0]], [[1], [2]]), i8(2, 2, 2, 4)),
    *both(ND, "one dimension", "", f32(6), at([3]), f32(1)),
    *both(ND, "not contiguous", "", bf16(6, 4), at([1], [4]), bf16(4, 2).t()),
    *both(ND, "nothing", "", f16(6, 4), torch.empty(0, 1, dtype=I64), f16(0, 4)),
    *both(ROWS, "a position a batch", "", bf16(2, 5, 4), at(3, 0), bf16(2, 2, 4), -2),
    *both(ROWS, "one batch of many", "", f16(3, 5, 4), at([2, 1], dtype=torch.int32), f16(1, 2, 4), 1),
    *both(ROWS, "the last axis", "", f32(2, 3, 5), at(1, 4), f32(2, 3, 1), -1),
    *both(ROWS, "int8 of two dimensions", "", i8(2, 6), at(0, 3), i8(2, 3), 1),
]
WRONG = [
    *both(ND, "uint8", "input", torch.zeros(6, 4, dtype=torch.uint8), at([1]), torch.zeros(1, 4, dtype=torch.uint8)),
    *both(ND, "no dimension", "input", f16(), at([1]), f16(1)),
    *both(ND, "float indices", "indices", f16(6, 4), f32(2, 1), f16(2, 4)),
    *both(ND, "indices of one dimension", "indices", f16(6, 4), at(1, 2), f16(2, 4)),
    *both(ND, "indices too deep", "indices.size(-1)", f16(6, 4), at([1, 2, 3]), f16(1)),
    *both(ND, "updates of another dtype", "updates", f16(6, 4), at([1]), bf16(1, 4)),
    *both(ND, "updates of another rank", "updates", f16(6, 4), at([1]), f16(4)),
    *both(ND, "too few updates", "updates.size(0)", f16(6, 4), at([1], [2]), f16(1, 4)),
    *both(ND, "updates too narrow", "updates.size(1)", f16(6, 4), at([1]), f16(1, 2)),
    *both(ROWS, "float64", "input", f16(2, 5, 4).double(), at(1, 2), f16(2, 1, 4).double(), 1),
    *both(ROWS, "one dimension", "input", f16(5), at(1), f16(1), 0),
    *both(ROWS, "float indices", "indices", f16(2, 5, 4), f32(2), f16(2, 1, 4), 1),
    *both(ROWS, "indices of three dimensions", "indices", f16(2, 5, 4), at([[1]]), f16(1, 1, 4), 1),
    *both(ROWS, "updates of another dtype", "updates", f16(2, 5, 4), at(1, 2), bf16(2, 1, 4), 1),
    *both(ROWS, "updates of another rank", "updates", f16(2, 5, 4), at(1, 2), f16(2, 4), 1),
    *both(ROWS, "the batch as axis", "axis", f16(2, 5, 4), at(1, 0), f16(2, 5, 4), 0),
    *both(ROWS, "an axis too far", "axis", f16(2, 5, 4), at(1, 0), f16(2, 1, 4), 3),
    *both(ROWS, "too few indices", "indices.size(0)", f16(2, 5, 4), at(1), f16(2, 1, 4), 1),
    *both(ROWS, "indices of three columns", "indices.size(1)", f16(2, 5, 4), at([1, 1, 1]), f16(1, 1, 4), 1),
    *both(ROWS, "no batch", "input.size(0)", f16(0, 5, 4), at(1), f16(1, 1, 4), 1),
    *both(ROWS, "updates too long", "updates.size(1)", f16(2, 5, 4), at(0, 0), f16(2, 6, 4), 1),
    *both(ROWS, "updates too narrow", "updates.size(2)", f16(2, 5, 4), at(1, 2), f16(2, 1, 2), 1),
]
WRONG_VALUES = [
    Call(ND, "beyond the rows", (f16(6, 4), at([6]), f16(1, 4)), {}, "indices[..., 0][0]"),
    Call(ND, "negative", (f16(6, 4), at([0, 1], [2, -1]), f16(2)), {}, "indices[..., 1][1]"),
    Call(ROWS, "beyond the end", (f16(2, 5, 4), at(0, 4), f16(2, 2, 4), 1), {}, "indices[1]"),
    Call(ROWS, "another batch", (f16(2, 5, 4), at([2, 0]), f16(1, 2, 4), 1), {}, "indices[..., 0][0]"),
]


@st.composite
def nd_calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=3)))
    count, depth = draw(SIZES), draw(st.integers(1, 3))
    x = tensor(draw, shape, torch.float16, torch.int8)
    indices = torch.zeros(count, depth, dtype=torch.int64)
    return (x, indices, tensor(draw, (count, *shape[depth:]), x.dtype)), {}


@st.composite
def row_calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3]), min_size=2, max_size=4)))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    x = tensor(draw, shape, torch.float16, torch.int8)
    return (x, torch.zeros(shape[0], dtype=torch.int32), tensor(draw, shape, x.dtype), axis), {}


CALLS = {ND: nd_calls(), f"{ND}_": nd_calls(), ROWS: row_calls(), f"{ROWS}_": row_calls()}


def expected_nd(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> np.ndarray:  # type: ignore[type-arg]
    out = x.numpy().copy()
    for index in np.ndindex(*indices.shape[:-1]):
        out[tuple(indices[index].tolist())] = updates.numpy()[index]
    return out


def expected_rows(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, axis: int) -> np.ndarray:  # type: ignore[type-arg]
    out = x.numpy().copy()
    for batch, start in enumerate(indices.tolist()):
        where = [slice(None)] * x.dim()
        where[axis] = slice(start, start + updates.size(axis))
        out[batch][tuple(where[1:])] = updates.numpy()[batch]
    return out


@st.composite
def nd_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows = draw(st.lists(st.integers(0, 5), min_size=1, max_size=6, unique=True))
    return (f16(6, 2, 3), torch.tensor(rows)[:, None], f16(len(rows), 2, 3)), {}


@st.composite
def row_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    length = draw(st.integers(1, 5))
    starts = [draw(st.integers(0, 5 - length)) for _ in range(3)]
    return (small32(3, 2, 5), torch.tensor(starts), small32(3, 2, length), 2), {}


STATEMENTS = {
    **dict.fromkeys((ND,), Statement(expected_nd, nd_data())),
    **dict.fromkeys((ROWS,), Statement(expected_rows, row_data())),
}
GOLDEN = {
    "scatter_nd_update-rows": (torch_npu.npu_scatter_nd_update, (bf16(6, 4), at([1], [4]), bf16(2, 4))),
    "scatter_update-rows": (
        lambda x, i, u: torch_npu.scatter_update(x, i, u, -2),
        (bf16(2, 5, 4), at(3, 0), bf16(2, 2, 4)),
    ),
}

"""Calls of npu_gather_sparse_index and of its gradient."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw, mostly
from support.call_table import Statement, bad
from support.tensors import ends, f16, f32, i8

OP, BACK = "gather_sparse_index", "gather_sparse_index_backward"
X = f32(3, 4)
# Upstream has no lowering, so it only runs eagerly: the allowed calls are generated below.
WRONG = [
    bad(OP, "input", "float8", X.to(torch.float8_e4m3fn), ends(1)),
    bad(OP, "index", "int16", X, ends(1).to(torch.int16)),
    bad(OP, "input", "no dimension", torch.tensor(1.0), ends(0)),
    bad(OP, "input and index", "nine dimensions", f32(3, 1, 1, 1), ends(1).reshape(1, 1, 1, 1, 1, 1)),
]
WRONG += [
    bad(BACK, "grad", "int8", i8(1, 4), [3, 4], ends(1)),
    bad(BACK, "index", "int16", f32(1, 4), [3, 4], ends(1).to(torch.int16)),
    bad(BACK, "index", "two dimensions", f32(1, 1, 4), [3, 4], ends(1)[None]),
    bad(BACK, "self_sizes", "no size", f32(1), [], ends(1)),
    bad(BACK, "grad", "more dimensions", f32(1, 1, 4), [3, 4], ends(1)),
    bad(BACK, "grad.size(0)", "more rows", f32(2, 4), [3, 4], ends(1)),
    bad(BACK, "grad.size(1)", "wider rows", f32(1, 5), [3, 4], ends(1)),
]
WRONG_VALUES = [
    bad(OP, "index", "after the last row", X, ends(0, 3)),
    bad(OP, "index", "a negative one", X, ends(-1)),
]


def expected(x: torch.Tensor, index: torch.Tensor) -> Any:
    return x.numpy()[index.numpy()]


def added(grad: torch.Tensor, sizes: list[int], index: torch.Tensor) -> Any:
    """Row by row, each sum rounded."""
    out = np.zeros(sizes, grad.numpy().dtype)
    for row, at in zip(grad.numpy(), index.tolist(), strict=True):
        out[at] = out[at] + row
    return out


@st.composite
def gradients(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    rows, count = draw(st.integers(1, 5)), draw(st.integers(0, 6))
    rest = draw(st.sampled_from([(), (3,), (2, 2)]))
    index = torch.randint(rows, (count,), dtype=draw(st.sampled_from([torch.int32, torch.int64])))
    return (draw(st.sampled_from([f32, f16]))(count, *rest), [rows, *rest], index), {}


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    rows = draw(st.integers(1, 5))
    x = draw(st.sampled_from([f32, f16, i8]))(rows, *draw(st.sampled_from([(), (3,), (2, 2)])))
    shape = draw(st.sampled_from([(), (4,), (2, 3), (0,)]))
    index = torch.randint(rows, shape, dtype=draw(st.sampled_from([torch.int32, torch.int64])))
    return (x, index), {}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    kind = mostly(draw, torch.int64, st.sampled_from([torch.int16, torch.float32]))
    return (
        f32(2, *mostly(draw, (3,), st.just((1,) * 8))),
        torch.zeros(draw(st.sampled_from([(), (2,)])), dtype=kind),
    ), {}


CALLS = {f"npu_{OP}": calls()}
STATEMENTS = {f"npu_{OP}": Statement(expected, with_data()), f"npu_{BACK}": Statement(added, gradients())}

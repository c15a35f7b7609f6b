"""Calls of npu_max and npu_min along a dimension, of their gradients and of npu_sort_v2."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import Draw
from support.call_table import Statement, bad
from support.tensors import bf16, ends, f16, f32, i8, small32

NAN = torch.tensor([[1.0, float("nan")]])
# Upstream has no lowering, so they only run eagerly: the allowed calls are generated below.
WRONG = [
    *(bad(op, "input", "int8", i8(3, 5), 1) for op in ("max.dim", "min.dim")),
    *(bad(op, "dim", "past the last", f32(3, 5), 2) for op in ("max.dim", "min.dim")),
    bad("max.dim", "input.size(1)", "nothing to choose from", f32(3, 0), 1),
    bad("max_backward", "indices", "int64", f32(3), 1, torch.zeros(3, dtype=torch.int64), [3, 5], False),
    bad("max_backward", "grad.size(0)", "fewer", f32(2), 1, ends(0, 1, 2), [3, 5], False),
    bad("min_backward", "indices.dim()", "kept", f32(3, 1), 1, ends(0, 1, 2), [3, 5], True),
    bad("sort_v2", "input", "bfloat16", bf16(3, 5)),
    bad("sort_v2", "dim", "the first", f32(3, 5), 0),
]
WRONG_VALUES = [
    bad("max.dim", "input", "no number", NAN, 1),
    bad("min.dim", "input", "no number", NAN, 1),
    bad("sort_v2", "input", "no number", NAN),
]


def chosen(function: Any, choice: Any) -> Any:
    def expected(x: torch.Tensor, dim: int, keepdim: bool) -> list[Any]:
        values = np.asarray(function(x.double().numpy(), axis=dim, keepdims=keepdim))
        indices = np.asarray(choice(x.double().numpy(), axis=dim, keepdims=keepdim), np.int32)
        return [torch.from_numpy(values).to(x.dtype), indices]

    return expected


def expected_gradient(grad: torch.Tensor, dim: int, indices: torch.Tensor, sizes: list[int], keepdim: bool) -> Any:
    result = np.zeros(sizes, np.float32)
    spread = (lambda array: array) if keepdim else (lambda array: np.expand_dims(array, dim))
    np.put_along_axis(result, spread(indices.numpy()).astype(np.int64), spread(grad.float().numpy()), dim)
    return torch.from_numpy(result).to(grad.dtype)


def expected_order(x: torch.Tensor, dim: int, descending: bool) -> torch.Tensor:
    assert dim == -1
    rows = np.sort(x.numpy().astype(np.float16), axis=-1)
    return torch.from_numpy((rows[..., ::-1] if descending else rows).copy()).to(x.dtype)


@st.composite
def reductions(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    x = (small32(*shape) % 5).to(draw(st.sampled_from([torch.float32, torch.float16, torch.bfloat16])))
    return (x, draw(st.integers(-len(shape), len(shape) - 1)), draw(st.booleans())), {}


@st.composite
def gradients(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    (x, dim, keepdim), _ = draw(reductions())
    indices = x.float().max(dim, keepdim).indices.int()
    return (f32(*indices.shape).to(x.dtype), dim, indices, list(x.shape), keepdim), {}


@st.composite
def orders(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (draw(st.sampled_from([f16, f32]))(2, draw(st.integers(1, 9))), -1, draw(st.booleans())), {}


CALLS = {"npu_max.dim": reductions()}
STATEMENTS = {
    "npu_max.dim": Statement(chosen(np.max, np.argmax), reductions()),
    "npu_min.dim": Statement(chosen(np.min, np.argmin), reductions()),
    "npu_max_backward": Statement(expected_gradient, gradients()),
    "npu_min_backward": Statement(expected_gradient, gradients()),
    "npu_sort_v2": Statement(expected_order, orders()),
}

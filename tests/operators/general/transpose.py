"""Calls of npu_transpose, and of npu_confusion_transpose and its gradient."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import Draw
from support.call_table import Call, Statement, bad
from support.tensors import bf16, f16, f32, i8

X = f32(2, 3, 4)
# Upstream has no lowering, so they only run eagerly: the allowed calls are generated below.
WRONG = [
    bad("transpose", "perm", "too few", X, [0, 1]),
    bad("transpose", "perm", "one twice", X, [0, 1, 1]),
    bad("transpose", "perm", "from behind", X, [0, 2, -2]),
    bad("transpose", "require_contiguous", "as it lies", X.movedim(0, 1), [0, 1, 2], False),
    bad("confusion_transpose", "input", "bfloat16", bf16(2, 3, 4), [0, 2, 1], [2, 12], True),
    bad("confusion_transpose", "perm", "as long as shape", X, [0, 1], [2, 12], True),
    bad("confusion_transpose", "perm", "as long as the input", X, [0, 2, 1], [2, 12], False),
    bad("confusion_transpose", "number of elements", "another number", X, [0, 2, 1], [2, 11], True),
    bad("confusion_transpose", "shape[1]", "what is left", X, [0, 2, 1], [2, -1], True),
    Call("npu_confusion_transpose_backward", "bfloat16", (bf16(2, 12), [0, 2, 1], [2, 3, 4], False), {}, "grad"),
    Call("npu_confusion_transpose_backward", "too few", (f32(2, 12), [0, 1], [2, 3, 4], False), {}, "perm"),
    Call("npu_confusion_transpose_backward", "others", (f32(2, 12), [1, 0], [5, 5], True), {}, "number of elements"),
]


@st.composite
def tensors(draw: Draw) -> torch.Tensor:
    return draw(st.sampled_from([f32, f16, i8]))(*draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))


@st.composite
def transposes(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    x = draw(tensors())
    return (x, draw(st.permutations(range(x.dim())))), {}


@st.composite
def confusions(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    x = draw(tensors())
    if draw(st.booleans()):
        shape = draw(st.sampled_from([[x.numel()], [1, x.numel()], [*reversed(x.shape)]]))
        return (x, draw(st.permutations(range(x.dim()))), shape, True), {}
    shape = draw(st.sampled_from([[x.numel()], [x.numel(), 1], [*x.shape, 1]]))
    return (x, draw(st.permutations(range(len(shape)))), shape, False), {}


def expected_confusion(x: torch.Tensor, perm: list[int], shape: list[int], transpose_first: bool) -> Any:
    if transpose_first:
        return np.transpose(x.numpy(), perm).reshape(shape)
    return np.transpose(x.numpy().reshape(shape), perm)


CALLS = {"npu_transpose": transposes(), "npu_confusion_transpose": confusions()}
STATEMENTS = {
    "npu_transpose": Statement(lambda x, perm: np.transpose(x.numpy(), perm), transposes()),
    "npu_confusion_transpose": Statement(expected_confusion, confusions()),
}

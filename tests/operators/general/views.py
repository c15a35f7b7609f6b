"""Calls of npu_reshape, npu_slice, npu_pad, npu_broadcast and npu_indexing."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import Draw
from support.call_table import Statement, bad
from support.tensors import f16, f32, i8

X = f32(2, 8)
# Upstream has no lowering, so they only run eagerly: the allowed calls are generated below.
WRONG = [
    bad("reshape", "shape", "fewer elements", X, [4, 3]),
    bad("reshape", "shape[0]", "what is left", X, [-1, 4]),
    bad("reshape", "input", "transposed", X.t(), [4, 4]),
    bad("reshape", "can_refresh", "refreshed", X, [4, 4], True),
    bad("slice", "len(offsets)", "too few", X, [0], [2, 2]),
    bad("slice", "len(size)", "too few", X, [0, 0], [2]),
    bad("slice", "offsets[1]", "negative", X, [0, -1], [2, 2]),
    bad("slice", "size[1]", "what is left", X, [0, 0], [2, -1]),
    bad("slice", "offsets[1] + size[1]", "past the end", X, [0, 7], [2, 2]),
    bad("pad", "paddings[1]", "negative", X, [0, -1]),
    bad("pad", "len(paddings)", "odd", X, [1]),
    bad("pad", "len(paddings)", "too many", X, [1, 1, 1, 1, 1, 1]),
    bad("broadcast", "len(size)", "too few", X, [8]),
    bad("broadcast", "input.size(-1)", "another size", X, [2, 9]),
    bad("broadcast", "size[0]", "as it is", X, [-1, 8]),
    bad("indexing", "len(begin)", "too few", X, [0], [2, 2], [1, 1]),
    bad("indexing", "strides[1]", "zero", X, [0, 0], [2, 2], [1, 0]),
    bad("indexing", "new_axis_mask", "not known", X, [0, 0], [2, 2], [1, 1], new_axis_mask=1),
]


def expected_pad(x: torch.Tensor, paddings: list[int]) -> Any:
    counts = [*paddings, *[0] * (2 * x.dim() - len(paddings))]
    return np.pad(x.numpy(), [(counts[2 * dim], counts[2 * dim + 1]) for dim in range(x.dim())])


def expected_slice(x: torch.Tensor, offsets: list[int], size: list[int]) -> Any:
    return x.numpy()[tuple(slice(start, start + length) for start, length in zip(offsets, size, strict=True))]


def expected_indexing(
    x: torch.Tensor, begin: list[int], end: list[int], strides: list[int], begin_mask: int, end_mask: int
) -> Any:
    chosen = [
        slice(None if begin_mask & 1 << dim else start, None if end_mask & 1 << dim else stop, stride)
        for dim, (start, stop, stride) in enumerate(zip(begin, end, strides, strict=True))
    ]
    return x.numpy()[tuple(chosen)]


@st.composite
def tensors(draw: Draw) -> torch.Tensor:
    return draw(st.sampled_from([f32, f16, i8]))(*draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))


@st.composite
def reshapes(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    x = draw(tensors())
    return (x, draw(st.sampled_from([[x.numel()], [1, x.numel()], [*reversed(x.shape)]]))), {}


@st.composite
def slices(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    x = draw(tensors())
    offsets = [draw(st.integers(0, size)) for size in x.shape]
    return (x, offsets, [draw(st.integers(0, size - start)) for size, start in zip(x.shape, offsets, strict=True)]), {}


@st.composite
def pads(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    x = draw(tensors())
    return (x, [draw(st.integers(0, 3)) for _ in range(2 * draw(st.integers(0, x.dim())))]), {}


@st.composite
def broadcasts(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    x = draw(tensors())
    sizes = [draw(st.integers(1, 4)) if size == 1 else size for size in x.shape]
    return (x, [*draw(st.lists(st.integers(1, 3), max_size=2)), *sizes]), {}


@st.composite
def indexings(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    x = draw(tensors())
    begin, end = ([draw(st.integers(-5, 5)) for _ in x.shape] for _ in range(2))
    strides = [draw(st.sampled_from([1, 2, -1])) for _ in x.shape]
    return (x, begin, end, strides, draw(st.integers(0, 7)), draw(st.integers(0, 7))), {}


CALLS = {"npu_pad": pads(), "npu_indexing": indexings()}
STATEMENTS = {
    "npu_reshape": Statement(lambda x, shape: x.numpy().reshape(shape), reshapes()),
    "npu_slice": Statement(expected_slice, slices()),
    "npu_pad": Statement(expected_pad, pads()),
    "npu_broadcast": Statement(lambda x, size: np.broadcast_to(x.numpy(), size), broadcasts()),
    "npu_indexing": Statement(expected_indexing, indexings()),
}

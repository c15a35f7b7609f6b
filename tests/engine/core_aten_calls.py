"""Core ATen calls that no OpInfo makes: scalar arguments, mixed dtypes, large integers, gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

aten = torch.ops.aten
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.uint8)
Made = tuple[Any, tuple[Any, ...], dict[str, Any]]
# An integer that float32 has no number for.
LARGE = 2**24 + 1


def own_calls() -> Iterator[Made]:
    """Overload, arguments and keyword arguments of each."""
    torch.manual_seed(0)
    for dtype in (*FLOATS, *INTEGERS):
        yield from _with_numbers((torch.randn(3, 5) * 4).to(dtype) if dtype in FLOATS else _integers(dtype))
    yield from _of_two_types()
    yield from _of_large_integers()
    for dtype in FLOATS:
        yield from _windows(dtype)
        yield from _norms(dtype)
        yield from _others(dtype)
    yield from _without_floats()


def _integers(dtype: torch.dtype) -> torch.Tensor:
    return torch.randint(0, 9, (3, 5)).to(dtype)


def _with_numbers(x: torch.Tensor) -> Iterator[Made]:
    for number in (2, 2.5, 0.1):
        for packet in (aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge):
            yield packet.Scalar, (x, number), {}
        for overload in (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor):
            yield overload, (x, number), {}
        for overload in (aten.add.Scalar, aten.sub.Scalar, aten.mul.Scalar, aten.div.Scalar):
            yield overload, (x, number), {}
        for overload in (aten.fmod.Scalar, aten.remainder.Scalar, aten.pow.Tensor_Scalar):
            yield overload, (x, number), {}
        yield aten.pow.Scalar, (number, x), {}
        for mode in ("floor", "trunc"):
            yield aten.div.Scalar_mode, (x, number), {"rounding_mode": mode}
            yield aten.div.Tensor_mode, (x, number), {"rounding_mode": mode}
        yield aten.clamp.default, (x, None, number), {}
    yield aten.sub.Tensor, (x, x + 1), {"alpha": 3}
    yield aten.add.Tensor, (x, x + 1), {"alpha": 3}
    yield aten.scatter.value, (x, 1, torch.tensor([[0, 2], [1, 0]]), 3), {}
    yield aten.any.dims, (x, [0, 1], True), {}
    yield aten.any.dims, (x, []), {}
    yield aten.full_like.default, (x, 3), {}
    yield aten.copy.default, (x, torch.arange(5)), {}
    if x.dtype in INTEGERS:
        for packet in (aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor):
            yield packet.Scalar, (x, 6), {}


def _of_two_types() -> Iterator[Made]:
    operands = [torch.randn(4) * 3, torch.randn(4).half(), torch.tensor([0, 1, 2, 3]), torch.tensor([True, False] * 2)]
    for one in operands:
        for other in operands:
            if one.dtype != other.dtype:
                for packet in (aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge):
                    yield packet.Tensor, (one, other), {}
                yield aten.where.self, (one > 0, one, other), {}
                yield aten.atan2.out, (one, other), {"out": torch.empty(4)}


def _of_large_integers() -> Iterator[Made]:
    x = torch.tensor([[LARGE, LARGE - 1], [LARGE - 1, LARGE]])
    for overload in (aten.argmax.default, aten.argmin.default):
        yield overload, (x, 1, True), {}
        yield overload, (x, 0), {}
    for overload in (aten.max.dim, aten.min.dim):
        yield overload, (x, 1), {}
        yield overload, (x, 1, True), {}


def _windows(dtype: torch.dtype) -> Iterator[Made]:
    image, volume = torch.randn(2, 3, 6, 5).to(dtype), torch.randn(2, 3, 4, 5, 6).to(dtype)
    yield aten.reflection_pad2d.default, (image, [1, 2, 3, 1]), {}
    yield aten.reflection_pad3d.default, (volume, [1, 2, 3, 1, 0, 2]), {}
    yield aten.replication_pad3d.default, (volume, [1, 2, 3, 1, 0, 2]), {}
    yield aten.replication_pad2d.default, (image, [1, -2, 3, 1]), {}
    yield aten.upsample_nearest2d.vec, (image, None, [2.0, 2.0]), {}
    yield aten.upsample_nearest2d.vec, (image, [7, 9], None), {}
    yield aten.upsample_bilinear2d.vec, (image, None, False, [2.0, 2.0]), {}
    yield aten.upsample_bilinear2d.vec, (image, [7, 9], True, None), {}
    yield aten.max_pool2d_with_indices.default, (image[0], [2, 2], [1, 2], [1, 0]), {}
    yield aten.avg_pool2d.default, (image, [2, 2], [2, 1], [1, 1], False, True), {}
    yield aten._adaptive_avg_pool2d_backward.default, (torch.randn(2, 3, 2, 2).to(dtype), image), {}


def _norms(dtype: torch.dtype) -> Iterator[Made]:
    x, weight, bias = torch.randn(4, 3, 5).to(dtype), torch.rand(3).to(dtype), torch.randn(3).to(dtype)
    mean, variance = torch.randn(3).to(dtype), (torch.rand(3) + 0.5).to(dtype)
    yield aten._native_batch_norm_legit_no_training.default, (x, weight, bias, mean, variance, 0.1, 1e-5), {}
    yield aten._native_batch_norm_legit.no_stats, (x, weight, bias, True, 0.1, 1e-5), {}


def _others(dtype: torch.dtype) -> Iterator[Made]:
    rows = torch.randn(7, 4).to(dtype)
    indices, starts = torch.tensor([0, 3, 3, 6, 1]), torch.tensor([0, 2])
    yield aten._embedding_bag.default, (rows, indices, starts), {"mode": 0}
    yield aten.embedding_dense_backward.default, (torch.randn(5, 4).to(dtype), indices, 7, -1, False), {}
    yield aten.native_dropout.default, (rows, 0.5, True), {}
    yield aten.index_put.default, (rows, [indices], torch.randn(4).to(dtype), True), {}
    yield aten.index_put.default, (rows, [None, torch.tensor([[1], [2]])], torch.tensor(2.0).to(dtype)), {}
    yield aten.index_put.default, (rows, [rows > 0], torch.tensor(2.0).to(dtype)), {}
    yield aten.index_put.default, (rows, [rows[:, 0] > 9], torch.randn(0, 4).to(dtype)), {}
    yield aten.as_strided.default, (rows, [3, 2], [4, 1], 2), {}


def _without_floats() -> Iterator[Made]:
    yield aten.randperm.default, (9,), {"device": torch.device("cpu")}
    yield aten.bitwise_xor.Scalar, (torch.tensor([True, False]), True), {}

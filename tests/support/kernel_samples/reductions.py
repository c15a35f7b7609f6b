"""Reductions along any axes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from support.kernel_samples.base import (
    ALL,
    FLOATS,
    GE_NUMBERS,
    KERNEL_SAMPLES,
    NUMBERS,
    Case,
    axis_of,
    kernel_sample,
    plain,
    shape,
    size,
    sizes,
    tensor,
    whole,
)  # fmt: skip


def _reduces(op_type: str, call: Callable[..., Any], kinds: tuple[torch.dtype, ...], zeros: bool = False) -> None:
    @kernel_sample(op_type)
    def make(chance: random.Random) -> Case:
        x, keep = tensor(chance, shape(chance, zeros=zeros), chance.choice(kinds)), chance.random() < 0.5
        axes = [axis - chance.choice((0, x.dim())) for axis in range(x.dim()) if chance.random() < 0.6]
        # For GE, no axes mean all of them.
        return Case([x, sizes(axes)], {"keep_dims": keep}, call(x, axes or list(range(x.dim())), keep))


def _step_by_step(call: Callable[..., Any]) -> Callable[..., Any]:
    """Reduce several axes one after the other, from the last."""

    def run(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
        for axis in sorted({axis % max(x.dim(), 1) for axis in axes}, reverse=True):
            x = call(x, axis, keep)
        return x

    return run


def _truth(call: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
        return torch.from_numpy(np.asarray(call(x.numpy(), tuple(axes), keepdims=keep)))

    return run


_reduces("ReduceSum", lambda x, d, k: torch.sum(x, d, k, dtype=x.dtype), NUMBERS, zeros=True)
_reduces("ReduceMean", torch.mean, FLOATS, zeros=True)
_reduces("ReduceMax", torch.amax, ALL)
_reduces("ReduceMin", torch.amin, ALL)
_reduces("ReduceLogSumExp", torch.logsumexp, FLOATS)
_reduces("ReduceProd", _step_by_step(lambda x, d, k: torch.prod(x, d, k, dtype=x.dtype)), NUMBERS, zeros=True)
_reduces("ReduceAll", _truth(np.all), (torch.bool,), zeros=True)
_reduces("ReduceAny", _truth(np.any), (torch.bool,), zeros=True)


@kernel_sample("ReduceProdD")
def reduce_prod_d(chance: random.Random) -> Case:
    (x, axes), attributes, expected, bound = KERNEL_SAMPLES["ReduceProd"](chance)
    return (x,), {"axes": list(axes.ints), **attributes}, expected, bound


@kernel_sample("ReduceStdWithMean")
def reduce_std_with_mean(chance: random.Random) -> Case:
    x, keep, invert = plain(shape(chance, 1, zeros=False)), chance.random() < 0.5, chance.random() < 0.5
    axes = [axis - chance.choice((0, x.dim())) for axis in range(x.dim()) if chance.random() < 0.6]
    every = tuple(axes) or tuple(range(x.dim()))
    x = torch.cat([x, x + 1], every[0])
    mean = x.double().mean(every, keepdim=True)
    unbiased = chance.random() < 0.5
    variance = x.double().var(every, correction=int(unbiased), keepdim=keep)
    expected = 1 / torch.sqrt(variance + 0.001) if invert else torch.sqrt(variance)
    attributes = {"dim": axes, "keepdim": keep, "invert": invert, "epsilon": 0.001, "unbiased": unbiased}
    return Case([x, mean.float().expand_as(x)], attributes, expected.float(), bound=16)


@kernel_sample("ReduceStdV2Update")
def reduce_var_around_mean(chance: random.Random) -> Case:
    x = plain(shape(chance, 1, zeros=False), chance.choice(FLOATS[:2]))
    axes = [axis - chance.choice((0, x.dim())) for axis in range(x.dim()) if chance.random() < 0.6] or [0]
    x = torch.cat([x, x + 1], axes[0])
    keep, root, correction = chance.random() < 0.5, chance.random() < 0.5, chance.randint(0, 1)
    wide = x.double().numpy().var(tuple(axes), ddof=correction, keepdims=keep)
    expected = torch.from_numpy(np.asarray(np.sqrt(wide) if root else wide)).to(x.dtype)
    mean = x.mean(axes, keepdim=True).expand_as(x)
    attributes = {"dim": axes, "if_std": root, "unbiased": correction > 0, "keepdim": keep, "correction": correction}
    return Case([x, mean], attributes, expected, bound=1)


@kernel_sample("LpNormV2")
def lp_norm(chance: random.Random) -> Case:
    x, keep = plain(shape(chance, zeros=False)), chance.random() < 0.5
    axes = [axis - chance.choice((0, x.dim())) for axis in range(x.dim()) if chance.random() < 0.6]
    order, meant = chance.choice(((2.0, 2.0), (1.0, 1.0), (3.0, 3.0), (2147483647.0, np.inf), (-2147483648.0, -np.inf)))
    size_of, along = np.abs(x.double().numpy()), tuple(axes) or None
    if np.isinf(meant):
        norm = (np.max if meant > 0 else np.min)(size_of, along, keepdims=keep)
    else:
        norm = np.sum(size_of**meant, along, keepdims=keep) ** (1 / meant)
    expected = torch.from_numpy(np.asarray(norm)).float()
    return Case([x], {"p": order, "axes": axes, "keepdim": keep}, expected, bound=16)


def _extreme(op_type: str, call: Callable[..., Any]) -> None:
    @kernel_sample(op_type)
    def make(chance: random.Random) -> Case:
        x, dtype = tensor(chance, shape(chance, zeros=False), torch.float32), chance.choice((torch.int32, torch.int64))
        axis = axis_of(chance, x.dim())
        # NumPy also prefers the first of equal values, and NaN over numbers.
        where = torch.from_numpy(np.asarray(call(x.numpy(), axis if x.dim() else None))).to(dtype)
        return Case([x, size(axis)], {"dtype": GE_NUMBERS[dtype]}, where)


def _extreme_with_value(op_type: str, where: Callable[..., Any], value: Callable[..., Any]) -> None:
    @kernel_sample(op_type)
    def make(chance: random.Random) -> Case:
        x, keep = tensor(chance, shape(chance, 1, zeros=False), torch.float32), chance.random() < 0.5
        axis = axis_of(chance, x.dim())
        indices = np.asarray(where(x.numpy(), axis, keepdims=keep))
        expected = torch.from_numpy(indices).int(), torch.from_numpy(np.asarray(value(x.numpy(), axis, keepdims=keep)))
        # +0 and -0 are equal maxima.
        return Case([x + 0.0], {"dimension": axis, "keep_dims": keep}, (expected[0], expected[1] + 0.0))


_extreme("ArgMaxV2", np.argmax)
_extreme("ArgMin", np.argmin)
_extreme_with_value("ArgMaxWithValue", np.argmax, np.max)
_extreme_with_value("ArgMinWithValue", np.argmin, np.min)


@kernel_sample("Cumsum")
def cumsum(chance: random.Random) -> Case:
    x = whole(shape(chance, 1), chance.choice(NUMBERS))
    axis, exclusive, reverse = axis_of(chance, x.dim()), chance.random() < 0.5, chance.random() < 0.5
    numbers = x.double().numpy()
    total = np.cumsum(np.flip(numbers, axis) if reverse else numbers, axis)
    total = np.flip(total, axis) if reverse else total
    expected = torch.from_numpy((total - numbers if exclusive else total) + 0.0).to(x.dtype)
    if x.dtype == torch.uint8:
        expected = torch.from_numpy((total - numbers if exclusive else total).astype(np.int64)).to(x.dtype)
    return Case([x, size(axis)], {"exclusive": exclusive, "reverse": reverse}, expected)


@kernel_sample("Cumprod")
def cumprod(chance: random.Random) -> Case:
    x = whole(shape(chance, 1), chance.choice(NUMBERS), most=3)
    # Integers have one zero, floats two.
    x = x.abs() if x.is_floating_point() else x
    axis, exclusive, reverse = axis_of(chance, x.dim()), chance.random() < 0.5, chance.random() < 0.5
    numbers = x.to(torch.int64).numpy()
    numbers = np.flip(numbers, axis) if reverse else numbers
    if exclusive:
        first, others = np.split(numbers, [1], axis)[0], np.split(numbers, [-1], axis)[0]
        numbers = np.concatenate([np.ones_like(first), others], axis)
    total = np.cumprod(numbers, axis)
    expected = torch.from_numpy((np.flip(total, axis) if reverse else total).copy()).to(x.dtype)
    return Case([x, size(axis)], {"exclusive": exclusive, "reverse": reverse}, expected)


def _running(op_type: str, name: str, call: Callable[..., Any]) -> None:
    @kernel_sample(op_type)
    def make(chance: random.Random) -> Case:
        x = whole(shape(chance, 1), chance.choice(NUMBERS)) + 0
        axis = axis_of(chance, x.dim())
        values = call(x.double().numpy(), axis)
        # Of equal values, the index is the last.
        indices = np.where(x.double().numpy() == values, np.arange(x.size(axis)).reshape(_along(x, axis)), -1)
        last = np.maximum.accumulate(indices, axis)
        return Case([x], {name: axis}, (torch.from_numpy(values).to(x.dtype), torch.from_numpy(last)))


def _along(x: torch.Tensor, axis: int) -> list[int]:
    return [-1 if dim == axis % x.dim() else 1 for dim in range(x.dim())]


_running("Cummax", "dim", np.maximum.accumulate)
_running("Cummin", "axis", np.minimum.accumulate)

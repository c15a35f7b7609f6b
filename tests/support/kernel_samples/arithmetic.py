"""Arithmetic with special rules: division, shifts, casts, selects, complex numbers and sums of several terms."""

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
    INTEGERS,
    NUMBERS,
    Case,
    kernel_sample,
    once,
    pair,
    plain,
    shape,
    tensor,
)

aten = torch.ops.aten


def _extremes(chance: random.Random, dtype: torch.dtype) -> list[torch.Tensor]:
    """Integers that broadcast, with the minimum and -1 among them, and nonzero divisors."""
    x1, x2 = pair(chance, dtype)
    x2[x2 == 0] = 3
    if dtype.is_signed and x1.numel() and x2.numel():
        x1.view(-1)[0], x2.view(-1)[0] = torch.iinfo(dtype).min, -1
    return [x1, x2]


def _in_numpy(divide: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    """NumPy's division, which wraps around for the minimum divided by -1."""

    def run(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        with np.errstate(all="ignore"):
            return torch.from_numpy(np.asarray(divide(x1.numpy(), x2.numpy()), x1.numpy().dtype))

    return run


def _truncated(x1: Any, x2: Any) -> Any:
    """Python's own integers, wrapped around."""
    x1, x2 = np.broadcast_arrays(x1, x2)
    numbers = zip(x1.ravel().tolist(), x2.ravel().tolist(), strict=True)
    quotients = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in numbers]
    bits = 8 * x1.dtype.itemsize
    wrapped = [q if x1.dtype.kind == "u" else (q + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1) for q in quotients]
    return np.array(wrapped, x1.dtype).reshape(x1.shape)


def _divides(op_type: str, of_floats: Callable[..., Any], of_integers: Callable[..., Any]) -> None:
    @kernel_sample(op_type)
    def make(chance: random.Random) -> Case:
        dtype = chance.choice(NUMBERS)
        x1, x2 = pair(chance, dtype) if dtype.is_floating_point else _extremes(chance, dtype)
        call = of_floats if dtype.is_floating_point else _in_numpy(of_integers)
        return Case([x1, x2], {}, call(x1, x2))


_divides("Div", torch.true_divide, _truncated)
_divides("RealDiv", torch.true_divide, _truncated)
_divides("TruncateDiv", lambda a, b: torch.div(a, b, rounding_mode="trunc"), _truncated)
_divides("FloorDiv", torch.floor_divide, np.floor_divide)
_divides("FloorMod", torch.remainder, np.mod)
_divides("Mod", torch.fmod, np.fmod)


@kernel_sample("DivNoNan")
def divide_no_nan(chance: random.Random) -> Case:
    dtype = chance.choice(FLOATS)
    x1, x2 = pair(chance, dtype)
    expected = torch.true_divide(x1, x2)
    expected[(x2 == 0).expand_as(expected)] = 0
    return Case([x1, x2], {}, expected)


@kernel_sample("LeftShift")
def left_shift(chance: random.Random) -> Case:
    dtype = chance.choice(INTEGERS)
    x, y = pair(chance, dtype)
    y = y.abs() % 8
    return Case([x, y], {}, torch.from_numpy(np.asarray(np.left_shift(x.numpy(), y.numpy()))))


@kernel_sample("RightShift")
def right_shift(chance: random.Random) -> Case:
    dtype = chance.choice(INTEGERS)
    x, y = pair(chance, dtype)
    y = y.abs() % 8
    return Case([x, y], {}, torch.from_numpy(np.asarray(np.right_shift(x.numpy(), y.numpy()))))


@kernel_sample("Cast")
def cast(chance: random.Random) -> Case:
    x, wanted = tensor(chance, shape(chance), chance.choice(ALL)), chance.choice(list(GE_NUMBERS))
    if x.dtype.is_floating_point and not (wanted.is_floating_point or wanted.is_complex or wanted == torch.bool):
        # In C, casting a float that is out of range is undefined.
        x = x.nan_to_num().clamp(0, 100)
    if chance.random() < 0.2:
        x = torch.complex(plain(x.shape), plain(x.shape))
        return Case([x], {"dst_type": 0}, x.real.clone())
    return Case([x], {"dst_type": GE_NUMBERS[wanted]}, x.type(wanted))


@kernel_sample("Exp")
def exp(chance: random.Random) -> Case:
    return _powers(chance, torch.exp, lambda x, base: base**x)


@kernel_sample("Log")
def log(chance: random.Random) -> Case:
    return _powers(chance, torch.log, lambda x, base: np.log(x) / np.log(base))


def _powers(chance: random.Random, natural: Callable[..., Any], other: Callable[..., Any]) -> Case:
    """A base of -1 is e, bit for bit; others, scaled and shifted, are computed in float64."""
    if chance.random() < 0.5:
        x = tensor(chance, shape(chance), chance.choice(FLOATS))
        return Case([x], {}, natural(x))
    x = plain(shape(chance)).abs() + 0.5
    base, scale, shift = chance.choice((2.0, 10.0, 3.0)), chance.choice((1.0, 0.5)), chance.choice((0.0, 0.25))
    expected = torch.from_numpy(np.asarray(other(x.double().numpy() * scale + shift, base))).float()
    return Case([x], {"base": base, "scale": scale, "shift": shift}, expected, bound=8)


@kernel_sample("Muls")
def multiply_scalar(chance: random.Random) -> Case:
    x, value = tensor(chance, shape(chance), chance.choice(FLOATS)), chance.choice((0.3125, -2.0, 0.0))
    return Case([x], {"value": value}, torch.mul(x, value))


@kernel_sample("Adds")
def add_scalar(chance: random.Random) -> Case:
    x, value = tensor(chance, shape(chance), chance.choice(FLOATS)), chance.choice((0.3125, -2.0, 0.0))
    return Case([x], {"value": value}, torch.add(x, value))


@kernel_sample("Axpy")
def axpy(chance: random.Random) -> Case:
    x1, x2 = pair(chance, chance.choice(FLOATS))
    alpha = chance.choice((0.3, -2.0, 1.0))
    return Case([x1, x2], {"alpha": alpha}, torch.add(x1, x2, alpha=alpha))


def _scaled(op_type: str, call: Callable[..., Any]) -> None:
    @kernel_sample(op_type)
    def make(chance: random.Random) -> Case:
        x1, x2 = pair(chance, chance.choice(NUMBERS))
        alpha = torch.tensor(chance.choice((2.0, 1.0, 0.3, -1.7)) if x1.is_floating_point() else 2).to(x1.dtype)
        return Case([x1, x2, alpha], {}, once(call, x1, x2, alpha=alpha.item()))


_scaled("AxpyV2", torch.add)
_scaled("Sxpy", torch.sub)


def _three(op_type: str, call: Callable[..., Any]) -> None:
    @kernel_sample(op_type)
    def make(chance: random.Random) -> Case:
        a, b, c = pair(chance, chance.choice(FLOATS), 3)
        value = chance.choice((1.0, -2.0, 0.5))
        return Case([a, b, c, torch.tensor(value, dtype=a.dtype)], {}, once(call, a, b, c, value=value))


_three("Addcmul", torch.addcmul)
_three("Addcdiv", torch.addcdiv)


@kernel_sample("Lerp")
def lerp(chance: random.Random) -> Case:
    start, end, weight = pair(chance, chance.choice(FLOATS), 3)
    return Case([start, end, weight], {}, torch.lerp(*torch.broadcast_tensors(start, end, weight)))


@kernel_sample("AddN", "AccumulateNV2")
def add_all(chance: random.Random) -> Case:
    dtype, full = chance.choice(NUMBERS), shape(chance)
    terms = [tensor(chance, full, dtype) for _ in range(chance.randint(1, 4))]
    total = terms[0].clone()
    for term in terms[1:]:
        total += term
    return Case([terms], {}, total)


@kernel_sample("ClipByValue", "ClipByValueV2")
def clip(chance: random.Random) -> Case:
    dtype = chance.choice(NUMBERS)
    x = tensor(chance, shape(chance), dtype)
    low, high = torch.tensor(1, dtype=dtype), torch.tensor(4, dtype=dtype)
    return Case([x, low, high], {}, torch.clip(x, 1, 4))


@kernel_sample("NanToNum")
def nan_to_num(chance: random.Random) -> Case:
    x = tensor(chance, shape(chance), chance.choice(FLOATS))
    attributes = {"nan": chance.choice((0.0, 7.0))} | ({"posinf": 9.0, "neginf": -9.0} if chance.random() < 0.5 else {})
    return Case([x], attributes, torch.nan_to_num(x, **attributes))


@kernel_sample("Complex")
def make_complex(chance: random.Random) -> Case:
    full = shape(chance)
    real, imag = tensor(chance, full, torch.float32), tensor(chance, full, torch.float32)
    expected = np.empty(full, np.complex64)
    expected.real, expected.imag = real.numpy(), imag.numpy()
    return Case([real, imag], {}, torch.from_numpy(np.asarray(expected)))


def _parts(op_type: str, part: str) -> None:
    @kernel_sample(op_type)
    def make(chance: random.Random) -> Case:
        full = shape(chance)
        x = torch.complex(plain(full), plain(full)) if chance.random() < 0.7 else plain(full)
        return Case([x], {}, torch.from_numpy(np.asarray(getattr(np, part)(x.numpy())).copy()))


_parts("Real", "real")
_parts("Imag", "imag")


@kernel_sample("SelectV2", "Select")
def select(chance: random.Random) -> Case:
    dtype, full = chance.choice(ALL), shape(chance)
    then, otherwise = (tensor(chance, full, dtype) for _ in range(2))
    condition = tensor(chance, full, torch.bool)
    expected = otherwise.clone()
    expected[condition] = then[condition]
    return Case([condition, then, otherwise], {}, expected)


@kernel_sample("MaskedFill")
def masked_fill(chance: random.Random) -> Case:
    x = tensor(chance, shape(chance), chance.choice(NUMBERS))
    mask = tensor(chance, [chance.choice((1, length)) for length in x.shape], torch.bool)
    value = chance.choice((3, 0))
    return Case([x, mask, torch.tensor(value, dtype=x.dtype)], {}, x.masked_fill(mask, value))

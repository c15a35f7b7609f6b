"""What trials are made of: shapes, tensors, and the table that they are entered in."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from graph_quant.ge.values import Sizes, list_of_sizes, one_size

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
NUMBERS = (*FLOATS, *INTEGERS)
ALL = (*NUMBERS, torch.bool)
GE_NUMBERS = {
    torch.float32: 0, torch.float16: 1, torch.int8: 2, torch.int32: 3, torch.uint8: 4, torch.int16: 6, torch.int64: 9,
    torch.float64: 11, torch.bool: 12, torch.complex64: 16, torch.bfloat16: 27,
}  # fmt: skip


class Case(NamedTuple):
    """Arguments of a kernel, its attributes, and what it must give.

    Bits are compared, unless ``bound`` says how far results may be apart, in units of the last place of the largest
    one: where a rule leaves the order of sums open, or says less than bits.
    """

    arguments: Sequence[Any]
    attributes: dict[str, Any]
    expected: Any
    bound: float = 0.0


Trial = Callable[[random.Random], Case]
TRIALS: dict[str, Trial] = {}


def trial(*types: str) -> Callable[[Trial], Trial]:
    """Enter a function that makes a case as the trial of GE types."""

    def enter(make: Trial) -> Trial:
        for op_type in types:
            assert op_type not in TRIALS, op_type
            TRIALS[op_type] = make
        return make

    return enter


def shape(chance: random.Random, least: int = 0, most: int = 4, zeros: bool = True) -> list[int]:
    return [chance.choice((1, 2, 3, 4, 0) if zeros else (1, 2, 3, 4)) for _ in range(chance.randint(least, most))]


def tensor(chance: random.Random, sizes: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Small and large numbers; among floats also infinities, zeros of both signs and what is no number."""
    sizes = list(sizes)
    if dtype == torch.bool:
        return torch.randint(0, 2, sizes).bool()
    if not dtype.is_floating_point:
        return torch.randint(0 if dtype == torch.uint8 else -9, 10, sizes).to(dtype)
    made = (torch.randn(sizes) * chance.choice((0.3, 3.0, 1e3))).to(dtype)
    for odd in (float("inf"), float("-inf"), float("nan"), -0.0, 0.0):
        if made.numel() and chance.random() < 0.12:
            made.view(-1)[chance.randrange(made.numel())] = odd
    return made


def plain(sizes: Sequence[int], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Ordinary numbers around 1."""
    return torch.randn(list(sizes)).to(dtype)


def whole(sizes: Sequence[int], dtype: torch.dtype = torch.float32, most: int = 4) -> torch.Tensor:
    """Small whole numbers: their sums of products are exact in every order."""
    return torch.randint(-most, most + 1, list(sizes)).to(dtype)


def pair(chance: random.Random, dtype: torch.dtype, count: int = 2) -> list[torch.Tensor]:
    """Tensors that broadcast."""
    full = shape(chance)
    kept = [full[chance.randint(0, len(full)) :] for _ in range(count)]
    return [tensor(chance, [chance.choice((size, size, 1)) for size in part], dtype) for part in kept]


def axis_of(chance: random.Random, rank: int) -> int:
    return chance.randint(-max(rank, 1), max(rank, 1) - 1)


def sizes(numbers: Iterable[int]) -> Sizes:
    return list_of_sizes(list(numbers))


def size(number: float, dtype: torch.dtype = torch.int64) -> Sizes:
    return one_size(number, dtype)


def once(call: Callable[..., Any], *given: torch.Tensor, **settings: Any) -> torch.Tensor:
    """Half precision computed in float32 and rounded once; ATen rounds each step where rows are short."""
    wide = [each.float() if each.dtype in (torch.float16, torch.bfloat16) else each for each in given]
    return call(*wide, **settings).to(given[0].dtype)


def gradient(function: Callable[..., Any], at: int, dy: torch.Tensor | None, *given: torch.Tensor) -> torch.Tensor:
    """What autograd gives for one argument of a function of torch."""
    inputs = [each.detach().clone() for each in given]
    inputs[at].requires_grad_()
    result = function(*inputs)
    (made,) = torch.autograd.grad(result, inputs[at], torch.ones_like(result) if dy is None else dy)
    return made

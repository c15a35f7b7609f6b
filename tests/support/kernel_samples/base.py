"""Building blocks of kernel samples: shapes, tensors, and the table of samples."""

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
    """The arguments and attributes of a kernel, and the expected result.

    Bits are compared, unless ``bound`` allows a deviation, in ulps of the largest
    one: where a rule leaves the order of sums open, or says less than bits.
    """

    arguments: Sequence[Any]
    attributes: dict[str, Any]
    expected: Any
    bound: float = 0.0


MakeCase = Callable[[random.Random], Case]
KERNEL_SAMPLES: dict[str, MakeCase] = {}


def kernel_sample(*types: str) -> Callable[[MakeCase], MakeCase]:
    """Register a function that makes a case as the sample of GE types."""

    def enter(make: MakeCase) -> MakeCase:
        for op_type in types:
            assert op_type not in KERNEL_SAMPLES, op_type
            KERNEL_SAMPLES[op_type] = make
        return make

    return enter


def shape(chance: random.Random, least: int = 0, most: int = 4, zeros: bool = True) -> list[int]:
    return [chance.choice((1, 2, 3, 4, 0) if zeros else (1, 2, 3, 4)) for _ in range(chance.randint(least, most))]


def tensor(chance: random.Random, sizes: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Small and large numbers; floats include infinities, zeros of both signs and NaN."""
    sizes = list(sizes)
    if dtype == torch.bool:
        return torch.randint(0, 2, sizes).bool()
    if not dtype.is_floating_point:
        return torch.randint(0 if dtype == torch.uint8 else -9, 10, sizes).to(dtype)
    values = (torch.randn(sizes) * chance.choice((0.3, 3.0, 1e3))).to(dtype)
    for odd in (float("inf"), float("-inf"), float("nan"), -0.0, 0.0):
        if values.numel() and chance.random() < 0.12:
            values.view(-1)[chance.randrange(values.numel())] = odd
    return values


def plain(sizes: Sequence[int], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Ordinary numbers around 1."""
    return torch.randn(list(sizes)).to(dtype)


def whole(sizes: Sequence[int], dtype: torch.dtype = torch.float32, most: int = 4) -> torch.Tensor:
    """Small integers: their sums of products are exact in every order."""
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


def once(call: Callable[..., Any], *tensors: torch.Tensor, **settings: Any) -> torch.Tensor:
    """Compute half precision in float32 and round once; ATen rounds every step for short rows."""
    wide = [tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor for tensor in tensors]
    return call(*wide, **settings).to(tensors[0].dtype)


def gradient(function: Callable[..., Any], at: int, dy: torch.Tensor | None, *tensors: torch.Tensor) -> torch.Tensor:
    """The gradient of one argument by autograd."""
    inputs = [tensor.detach().clone() for tensor in tensors]
    inputs[at].requires_grad_()
    result = function(*inputs)
    (result_gradient,) = torch.autograd.grad(result, inputs[at], torch.ones_like(result) if dy is None else dy)
    return result_gradient

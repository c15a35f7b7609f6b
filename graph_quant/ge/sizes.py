"""Values that stay Python numbers while a graph runs: shapes, and the arithmetic that graphs do on them.

A graph with dynamic shapes computes sizes with the same operators as data. Kept as Python or symbolic integers they
can be traced; as tensors every one of them would be data that no compiler can see through. They become tensors only
where an operator uses them as data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

Number = int | float | bool


class Sizes(NamedTuple):
    """A small tensor held as Python (or symbolic) numbers in row-major order."""

    items: tuple[Number, ...]
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def ints(self) -> tuple[int, ...]:
        """The items where they are sizes, axes or indices."""
        return self.items  # type: ignore[return-value]

    @property
    def scalar(self) -> Number:
        """The only item."""
        return self.items[0]


def one_size(item: Number, dtype: torch.dtype) -> Sizes:
    """A value of rank 0."""
    return Sizes((item,), (), dtype)


def list_of_sizes(items: Sequence[Number], dtype: torch.dtype = torch.int64) -> Sizes:
    """A value of rank 1."""
    return Sizes(tuple(items), (len(items),), dtype)


def given_sizes(value: Number | Sequence[Number], dtype: torch.dtype) -> Sizes:
    """A graph input that is a size or a list of sizes."""
    if isinstance(value, (tuple, list)):
        return list_of_sizes(value, dtype)
    return one_size(value, dtype)  # type: ignore[arg-type]


def to_tensor(value: Sizes) -> torch.Tensor:
    """The tensor, where an operator uses the value as data."""
    numbers = list(value.items)
    if len(numbers) == 1 and not value.shape:
        return torch.scalar_tensor(numbers[0], dtype=value.dtype)
    if any(isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)) for number in numbers):
        flat = torch.stack([torch.scalar_tensor(number, dtype=value.dtype) for number in numbers])
    else:
        flat = torch.tensor(numbers, dtype=value.dtype)
    return flat.reshape(value.shape)


def to_sizes(tensor: torch.Tensor) -> Sizes:
    """The numbers of a tensor, where an operator needs data as a size, an axis or an index."""
    shape = tuple(tensor.shape)
    if tensor.numel() == 0:
        return Sizes((), shape, tensor.dtype)
    flat = tensor.reshape(-1)
    if type(tensor) is torch.Tensor and not torch.compiler.is_dynamo_compiling():
        return Sizes(tuple(flat.tolist()), shape, tensor.dtype)
    return Sizes(tuple(flat[i].item() for i in range(math.prod(shape))), shape, tensor.dtype)

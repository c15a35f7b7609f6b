"""Whether all ranks make the same call: they tell each other before data moves, so that none waits in vain.

What is little is told along with the call: then one exchange is all there is.
"""

import struct
from collections.abc import Sequence
from ctypes import memmove
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate
from zlib import crc32

import torch
from torch import Tensor

from .gloo import Gloo, plain_gloo

NAMES = [
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_to_all",
    "all_to_all_single",
    "barrier",
]
DTYPES = sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)}, key=str)
_NAME, _DTYPE = ({value: place for place, value in enumerate(values)} for values in (NAMES, DTYPES))
_NUMBERS = 6  # name, dtype, elements, detail, form, bytes told
_LITTLE = 4096
_pack = struct.Struct(f"{_NUMBERS}q").pack_into


@dataclass(frozen=True)
class Announced:
    """What a rank is about to do, as the others are told."""

    name: str
    dtype: torch.dtype = torch.uint8
    elements: int = 0
    detail: int = 0  # the reduction or the root
    sends: tuple[int, ...] = ()  # elements for each rank, where they may differ
    takes: tuple[int, ...] = ()  # elements from each rank
    form: int = 0  # which tensors they are, where there are several

    def __str__(self) -> str:
        what = f"{self.name} of {self.dtype}, {self.elements} elements"
        what += f" in tensors of form {self.form:08x}" if self.form else ""
        return f"{what} (reduction or root {self.detail})" if self.detail else what


@dataclass(frozen=True)
class Told:
    """What all ranks have told: how many elements each sends to each, and their data where it is little."""

    sends: Sequence[Sequence[int]]
    data: Sequence[Tensor] | None


class Announcements:
    """The calls of the ranks of a group, a row each, and after it as much data as a row has room for."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        width = _NUMBERS + 2 * ranks
        own, rows = (torch.zeros(*shape, 8 * width + _LITTLE, dtype=torch.uint8) for shape in ((), (ranks,)))
        self._own, self._rows = own, list(rows)
        self._own_numbers = own[: 8 * width].view(torch.int64).numpy()
        self._numbers = rows[:, : 8 * width].view(torch.int64).numpy()
        self._own_data, self._data = own[8 * width :].data_ptr(), list(rows[:, 8 * width :])
        self._own_bytes, self._bytes = (
            self._own_numbers.data.cast("B"),
            [row.data.cast("B") for row in self._numbers],
        )

    def exchange(self, gloo: Gloo, call: Announced, given: Sequence[Tensor], limit: timedelta) -> Told:
        """Return when all ranks have come to this call; raise on every rank where their calls do not fit."""
        ranks = self._ranks
        *begins, told = places(given)
        _pack(self._own_bytes, 0, _NAME[call.name], _DTYPE[call.dtype], call.elements, call.detail, call.form, told)
        self._own_numbers[_NUMBERS:] = (*call.sends, *call.takes) or 0
        if told <= _LITTLE:
            for place, tensor in zip(begins, given, strict=True):
                memmove(self._own_data + place, tensor.data_ptr(), tensor.nbytes)
        plain_gloo.allgather(gloo, self._rows, self._own, timeout=limit).wait()
        if not call.sends and all(row == self._own_bytes for row in self._bytes):  # as mostly, and quickly seen
            return Told((), self._data if told <= _LITTLE else None)
        calls, splits = self._numbers[:, : _NUMBERS - 1], self._numbers[:, _NUMBERS:]
        sends, takes = splits[:, :ranks], splits[:, ranks:]
        if (calls != calls[0]).any() or (sends != takes.T).any():
            self._refuse(call.name)
        little = self._numbers[:, _NUMBERS - 1].max() <= _LITTLE
        return Told(sends.tolist() if call.sends else (), self._data if little else None)

    def _refuse(self, name: str) -> None:
        calls = [_call(row, self._ranks) for row in self._numbers.tolist()]
        first = _alike(calls[0])
        for rank, call in enumerate(calls):
            if _alike(call) != first:
                raise RuntimeError(f"hccl {name}: the ranks differ: rank 0 calls {calls[0]}, rank {rank} calls {call}")
        for source, sender in enumerate(calls):
            for target, taker in enumerate(calls):
                if sender.sends[target] != taker.takes[source]:
                    raise RuntimeError(
                        f"hccl {name}: rank {source} sends {sender.sends[target]} elements to rank {target}, "
                        f"which takes {taker.takes[source]}"
                    )


def _call(row: list[int], ranks: int) -> Announced:
    name, dtype, elements, detail, form, _, *splits = row
    return Announced(NAMES[name], DTYPES[dtype], elements, detail, tuple(splits[:ranks]), tuple(splits[ranks:]), form)


def _alike(call: Announced) -> tuple[object, ...]:
    return (call.name, call.dtype, call.elements, call.detail, call.form)


def form(tensors: Sequence[Tensor]) -> int:
    """Return a number for the dtypes and sizes of several tensors; for one, whose dtype and size are told, 0."""
    return 0 if len(tensors) == 1 else crc32(repr([(str(each.dtype), each.numel()) for each in tensors]).encode())


def room(length: int) -> int:
    """Return the bytes that a tensor of some takes up in a row: each begins where every dtype may."""
    return -(-length // 8) * 8


def places(tensors: Sequence[Tensor]) -> list[int]:
    """Return where in a row's data each of some tensors begins, and where the last one ends."""
    return list(accumulate((room(tensor.nbytes) for tensor in tensors), initial=0))

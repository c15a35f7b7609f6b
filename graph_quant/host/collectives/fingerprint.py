"""Checks that all ranks make the same call, before data moves, so that no rank waits for a call that never comes.

Every rank sends a fingerprint of its call to all others. Small inputs travel with it, so that a small collective needs
one exchange only.
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
from torch._C._distributed_c10d import AllgatherOptions

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
_NAME, _DTYPE = ({value: index for index, value in enumerate(values)} for values in (NAMES, DTYPES))
_NUMBERS = 6  # name, dtype, elements, detail, layout hash, bytes of input
_INLINE_BYTES = 4096
_pack = struct.Struct(f"{_NUMBERS}q").pack_into


@dataclass(frozen=True)
class Fingerprint:
    """The call that a rank is about to make, as it is sent to the other ranks."""

    name: str
    dtype: torch.dtype = torch.uint8
    elements: int = 0
    detail: int = 0  # the reduction or the root
    sends: tuple[int, ...] = ()  # elements for each rank, where they may differ
    takes: tuple[int, ...] = ()  # elements from each rank
    layout: int = 0  # of the tensors, where there are several

    def __str__(self) -> str:
        what = f"{self.name} of {self.dtype}, {self.elements} elements"
        what += f" in tensors of form {self.layout:08x}" if self.layout else ""
        return f"{what} (reduction or root {self.detail})" if self.detail else what


@dataclass(frozen=True)
class ExchangeResult:
    """What the ranks exchanged: how many elements each sends to each, and all inputs where they are small."""

    sends: Sequence[Sequence[int]]
    data: Sequence[Tensor] | None


class FingerprintExchange:
    """Exchanges the fingerprints of a group: a row for each rank, followed by room for small inputs."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        width = _NUMBERS + 2 * ranks
        own, rows = (torch.zeros(*shape, 8 * width + _INLINE_BYTES, dtype=torch.uint8) for shape in ((), (ranks,)))
        self._own, self._rows = own, list(rows)
        self._own_numbers = own[: 8 * width].view(torch.int64).numpy()
        self._numbers = rows[:, : 8 * width].view(torch.int64).numpy()
        self._own_data, self._data = own[8 * width :].data_ptr(), list(rows[:, 8 * width :])
        self._own_bytes, self._bytes = (self._own_numbers.data.cast("B"), [row.data.cast("B") for row in self._numbers])

    def exchange(self, gloo: Gloo, call: Fingerprint, inputs: Sequence[Tensor], limit: timedelta) -> ExchangeResult:
        """Return when all ranks have arrived at this call; raise on every rank if their calls do not match."""
        ranks = self._ranks
        *starts, nbytes = offsets(inputs)
        _pack(self._own_bytes, 0, _NAME[call.name], _DTYPE[call.dtype], call.elements, call.detail, call.layout, nbytes)
        self._own_numbers[_NUMBERS:] = (*call.sends, *call.takes) or 0
        if nbytes <= _INLINE_BYTES:
            for start, tensor in zip(starts, inputs, strict=True):
                memmove(self._own_data + start, tensor.data_ptr(), tensor.nbytes)
        options = AllgatherOptions()
        options.timeout = limit
        plain_gloo.allgather(gloo, [self._rows], [self._own], options).wait()
        if not call.sends and all(row == self._own_bytes for row in self._bytes):  # the common case
            return ExchangeResult((), self._data if nbytes <= _INLINE_BYTES else None)
        calls, splits = self._numbers[:, : _NUMBERS - 1], self._numbers[:, _NUMBERS:]
        sends, takes = splits[:, :ranks], splits[:, ranks:]
        if (calls != calls[0]).any() or (sends != takes.T).any():
            self._refuse(call.name)
        is_inline = self._numbers[:, _NUMBERS - 1].max() <= _INLINE_BYTES
        return ExchangeResult(sends.tolist() if call.sends else (), self._data if is_inline else None)

    def _refuse(self, name: str) -> None:
        calls = [_decode(row, self._ranks) for row in self._numbers.tolist()]
        first = _common_fields(calls[0])
        for rank, call in enumerate(calls):
            if _common_fields(call) != first:
                raise RuntimeError(f"hccl {name}: the ranks differ: rank 0 calls {calls[0]}, rank {rank} calls {call}")
        for source, sender in enumerate(calls):
            for target, taker in enumerate(calls):
                if sender.sends[target] != taker.takes[source]:
                    raise RuntimeError(
                        f"hccl {name}: rank {source} sends {sender.sends[target]} elements to rank {target}, "
                        f"which takes {taker.takes[source]}"
                    )


def _decode(row: list[int], ranks: int) -> Fingerprint:
    name, dtype, elements, detail, layout, _, *splits = row
    return Fingerprint(
        NAMES[name], DTYPES[dtype], elements, detail, tuple(splits[:ranks]), tuple(splits[ranks:]), layout
    )


def _common_fields(call: Fingerprint) -> tuple[object, ...]:
    return (call.name, call.dtype, call.elements, call.detail, call.layout)


def layout_hash(tensors: Sequence[Tensor]) -> int:
    """Return a hash of the dtypes and sizes of several tensors; 0 for one, which the other fields describe."""
    return 0 if len(tensors) == 1 else crc32(repr([(str(tensor.dtype), tensor.numel()) for tensor in tensors]).encode())


def aligned_size(length: int) -> int:
    """Return the bytes that a tensor takes up in a row: tensors start at multiples of 8, which suits every dtype."""
    return -(-length // 8) * 8


def offsets(tensors: Sequence[Tensor]) -> list[int]:
    """Return the offset of each tensor in a row's data, and the end of the last one."""
    return list(accumulate((aligned_size(tensor.nbytes) for tensor in tensors), initial=0))

"""Windows: memory of a rank that other ranks of the same machine write to directly (one-sided communication).

A window is an npu tensor whose pages belong to an anonymous file (memfd). Other ranks open it by the owner's file
descriptor, so that nothing is left behind, however a rank ends.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .memory import cpu_view

_SHARED, _PRIVATE, _FIXED, _ANONYMOUS = 0x01, 0x02, 0x10, 0x20  # of Linux's mmap
_map = ctypes.CDLL(None, use_errno=True).mmap
_map.restype = ctypes.c_void_p
_map.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


class Windows:
    """The window of a rank of a group, and the windows of its peers."""

    def __init__(self, store: Any, name: str, rank: int, ranks: int, limit: timedelta) -> None:
        self._store, self._name, self._rank, self._ranks, self._limit = store, name, rank, ranks, limit
        self._file: int | None = None
        self._own: Tensor | None = None
        self._others: dict[int, Tensor] = {}

    def open(self, size: int, peers: Sequence[int]) -> None:
        """Create this rank's window, and open those of its peers, which do the same."""
        if size <= 0:
            raise RuntimeError(f"hccl: a window must have more than 0 bytes, got {size}")
        if self._own is not None:
            raise RuntimeError("hccl: a group registers its window once, got it again")
        strangers = [peer for peer in peers if not 0 <= peer < self._ranks or peer == self._rank]
        if strangers:
            raise RuntimeError(
                f"hccl: the peers of a window must be other ranks of the {self._ranks} of its group, got {strangers}"
            )
        self._file = os.memfd_create(f"window of rank {self._rank}")
        pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        os.ftruncate(self._file, pages)
        memory = torch.empty(pages + mmap.PAGESIZE, dtype=torch.int8, device="npu")
        start = -memory.data_ptr() % mmap.PAGESIZE
        self._own = memory[start : start + size]
        _remap(self._own.data_ptr(), pages, _SHARED, self._file)
        location = {"machine": _machine_id(), "process": os.getpid(), "file": self._file, "size": size}
        self._store.set(_key(self._rank), json.dumps(location))
        self._others = {peer: self._open_peer(peer) for peer in peers}

    def _open_peer(self, peer: int) -> Tensor:
        try:
            self._store.wait([_key(peer)], self._limit)
        except RuntimeError:
            raise RuntimeError(
                f"hccl: rank {peer} of group {self._name} has registered no window within "
                f"{self._limit.total_seconds():g} s"
            ) from None
        location = json.loads(self._store.get(_key(peer)))
        if location["machine"] != _machine_id():
            raise RuntimeError(f"hccl: windows reach the ranks of one machine, and rank {peer} is on another")
        with Path(f"/proc/{location['process']}/fd/{location['file']}").open("r+b") as file:
            return torch.frombuffer(mmap.mmap(file.fileno(), location["size"]), dtype=torch.uint8)

    def own(self) -> Tensor:
        """Return the window of this rank, an npu tensor of bytes."""
        if self._own is None:
            raise RuntimeError("hccl: a window must be registered before it is asked for")
        return self._own

    def of(self, rank: int) -> Tensor:
        """Return the window of another rank, as bytes mapped into this process."""
        if self._own is None:
            raise RuntimeError(
                f"hccl: group {self._name} has no windows; register them with _window_register_and_exchange"
            )
        if rank not in self._others:
            raise RuntimeError(
                f"hccl: rank {self._rank} has registered its window with ranks {sorted(self._others)}, "
                f"not with rank {rank}"
            )
        return self._others[rank]

    def end(self) -> None:
        """Make the memory private again: later writes of other ranks do not reach it."""
        self._store, self._others = None, {}
        if self._own is None or self._file is None:
            return
        left = cpu_view(self._own).clone()
        pages = os.fstat(self._file).st_size
        _remap(self._own.data_ptr(), pages, _PRIVATE | _ANONYMOUS, -1)
        cpu_view(self._own).copy_(left)
        os.close(self._file)
        self._own = self._file = None


def _remap(address: int, size: int, kind: int, file: int) -> None:
    """Map a file's pages, or fresh ones, over the memory at an address."""
    mapped = _map(address, size, mmap.PROT_READ | mmap.PROT_WRITE, kind | _FIXED, file, 0)
    if mapped != address:
        raise OSError(ctypes.get_errno(), f"{size} bytes at {address:#x} cannot be shared between processes")


def _key(rank: int) -> str:
    return f"window of rank {rank}"


def _machine_id() -> str:
    """Return an identifier that processes share if they can open each other's file descriptors."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip() + str(
        Path("/proc/self/ns/pid").readlink()
    )

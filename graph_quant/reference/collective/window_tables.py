"""The contents of a window: an int32 table of flags and ids and, aligned to 512 bytes, the tokens."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from graph_quant.reference.collective.process_group import Group, resolve_group
from graph_quant.refusals import Refusal
from torch import Tensor

_ALIGNMENT = 512
_POLL_SECONDS = 0.0005


@dataclass(frozen=True)
class Window:
    """The two tables of a rank's window: ``info`` (int32) and ``data`` (tokens)."""

    info: Tensor
    data: Tensor


def map_window(
    op: str, group: Group, rank: int, info: Sequence[int], data: Sequence[int], dtype: torch.dtype
) -> Window:
    """Views of a rank's window as tables of these shapes; refuses a window that is too small."""
    window = group.window(rank)
    numbers, start = math.prod(info) * 4, -(-math.prod(info) * 4 // _ALIGNMENT) * _ALIGNMENT
    end = start + math.prod(data) * dtype.itemsize
    if window.numel() < end:
        raise Refusal(f"{op}: the window of rank {rank} must have {end} bytes for these shapes, got {window.numel()}")
    return Window(window[:numbers].view(torch.int32).view(tuple(info)), window[start:end].view(dtype).view(tuple(data)))


def resolve_world(op: str, group: str, world_size: int) -> Group:
    """The process group of a call; refuses another number of ranks than ``world_size``."""
    process_group = resolve_group(group)
    if process_group.ranks != world_size:
        raise Refusal(f"{op}: world_size must be that of group {group!r}, {process_group.ranks}, got {world_size}")
    return process_group


def wait_until_free(op: str, rank: int, flag: Tensor, seconds: float) -> None:
    """Waits until the owner of a window has read the previous tokens and reset the flag."""
    deadline = time.monotonic() + seconds
    while int(flag) == 1:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{op}: rank {rank} has not taken the tokens before these within {seconds:g} s")
        time.sleep(_POLL_SECONDS)


def check_index_range(op: str, name: str, values: Tensor, end: int) -> None:
    """Refuses indices outside [0, end)."""
    outside = values[(values < 0) | (values >= end)]
    if outside.numel():
        raise Refusal(f"{op}: {name} must be from 0 to {end - 1}, got {int(outside[0])}")

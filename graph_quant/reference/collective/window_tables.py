"""What lies in a window: a table of int32 that says what has come, and from the next 512 bytes on, the tokens."""

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
_SECONDS_BETWEEN_LOOKS = 0.0005


@dataclass(frozen=True)
class Window:
    """The window of a rank, as both its tables: ``info`` of numbers, ``data`` of tokens."""

    info: Tensor
    data: Tensor


def map_window(
    op: str, group: Group, rank: int, info: Sequence[int], data: Sequence[int], dtype: torch.dtype
) -> Window:
    """The tables of these shapes in the window of a rank; one that they do not fit into is refused."""
    whole = group.window(rank)
    numbers, start = math.prod(info) * 4, -(-math.prod(info) * 4 // _ALIGNMENT) * _ALIGNMENT
    end = start + math.prod(data) * dtype.itemsize
    if whole.numel() < end:
        raise Refusal(f"{op}: the window of rank {rank} must have {end} bytes for these shapes, got {whole.numel()}")
    return Window(whole[:numbers].view(torch.int32).view(tuple(info)), whole[start:end].view(dtype).view(tuple(data)))


def resolve_world(op: str, group: str, world_size: int) -> Group:
    """The group of a call, which must have as many ranks as the call says."""
    found = resolve_group(group)
    if found.ranks != world_size:
        raise Refusal(f"{op}: world_size must be that of group {group!r}, {found.ranks}, got {world_size}")
    return found


def wait_until_free(op: str, rank: int, flag: Tensor, seconds: float) -> None:
    """Waits until the owner of a window has taken what was written last: it resets the flag."""
    deadline = time.monotonic() + seconds
    while int(flag) == 1:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{op}: rank {rank} has not taken the tokens before these within {seconds:g} s")
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def check_index_range(op: str, name: str, values: Tensor, end: int) -> None:
    """Numbers that say where something lies."""
    outside = values[(values < 0) | (values >= end)]
    if outside.numel():
        raise Refusal(f"{op}: {name} must be from 0 to {end - 1}, got {int(outside[0])}")

"""A kernel that ran, with its results."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class TracedKernel(NamedTuple):
    """A kernel that ran; ``module`` is the module that called it, "" where a graph was replayed."""

    operator: str
    results: tuple[Tensor, ...]  # copies on the CPU; without large ones
    module: str = ""
    is_replayed: bool = False

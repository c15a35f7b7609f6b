"""Which kernel a node gets. The engine and the inference of dumps both ask here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...ge import CONSTANT_KERNELS, KERNELS, SIZE_KERNELS, Kernel

# Longer constants are data, never sizes.
LONGEST_SIZES = 64


class Fed(NamedTuple):
    """What an input is fed: whether its numbers are known as sizes are, and its rank where it is a constant."""

    is_size: bool
    constant_rank: int | None = None


def choose(op_type: str, fed: Mapping[str, Fed]) -> Kernel | None:
    """The size kernel where the host knows every number and a size is among them; None where there is no kernel.

    Constants alone are data as much as sizes: tensor kernels compute them, and ``is_folded`` says where the host then
    knows the result too.
    """
    on_sizes = SIZE_KERNELS.get(op_type)
    if on_sizes is not None and fed and all(each.is_size for each in fed.values()) and not is_folded(op_type, fed):
        return on_sizes
    special = CONSTANT_KERNELS.get(op_type)
    if special is not None:
        wanted = [fed.get(declared.name) for declared in special.inputs if declared.is_size]
        if all(each is not None and each.constant_rank == 0 for each in wanted):
            return special
    return KERNELS.get(op_type)


def is_folded(op_type: str, fed: Mapping[str, Fed]) -> bool:
    """Whether a node computes a constant that may be, or lead to, a size."""
    constants = (each.is_size and each.constant_rank is not None for each in fed.values())
    return op_type in SIZE_KERNELS and bool(fed) and all(constants)

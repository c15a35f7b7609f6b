"""Quantises rows by group."""

from __future__ import annotations

from typing import Any

from graph_quant.meta.group_quant import OPERATOR, check
from graph_quant.reference import group_quant as reference
from torch import Tensor

__all__ = ["OPERATOR", "compute"]


def compute(x: Tensor, scale: Tensor, group_index: Tensor, *, offset: Any = None, dst_dtype: Any = None) -> Tensor:
    """The result of one call."""
    destination = check(x, scale, group_index, offset=offset, dst_dtype=dst_dtype)
    reference.check_index(x, group_index)
    return reference.group_quant(x, scale, group_index, offset, destination)

"""Turns integers back into numbers."""

from __future__ import annotations

from typing import Any

from graph_quant.meta.anti_quant import OPERATOR, check
from graph_quant.reference.anti_quant import anti_quant
from torch import Tensor

__all__ = ["OPERATOR", "compute"]


def compute(x: Tensor, scale: Tensor, *, offset: Tensor | None = None, **dtypes: Any) -> Tensor:
    """The result of one call."""
    return anti_quant(x, scale, offset, check(x, scale, offset=offset, **dtypes).output)

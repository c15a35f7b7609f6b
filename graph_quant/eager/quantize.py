"""Quantises along an axis."""

from __future__ import annotations

from graph_quant.meta.quantize import OPERATOR, check
from graph_quant.reference.quantize import quantize
from torch import Tensor

__all__ = ["OPERATOR", "compute"]


def compute(
    x: Tensor, scales: Tensor, zero_points: Tensor | None, dtype: int, axis: int = 1, div_mode: bool = True
) -> Tensor:
    """The result of one call."""
    plan = check(x, scales, zero_points, dtype, axis, div_mode)
    return quantize(x, scales, zero_points, plan.axis, plan.destination, divide=plan.divide)

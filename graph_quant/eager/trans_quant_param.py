"""Packs a scale and an offset."""

from __future__ import annotations

from graph_quant.meta.trans_quant_param import OPERATOR, check
from graph_quant.reference.trans_quant_param import trans_quant_param
from torch import Tensor

__all__ = ["OPERATOR", "compute"]


def compute(scale: Tensor, offset: Tensor | None = None, round_mode: int | None = 0) -> Tensor:
    """The result of one call."""
    plan = check(scale, offset, round_mode)
    return trans_quant_param(scale, offset, plan.round_mode)

"""Quantises between the extremes of each token, channel or tensor."""

from __future__ import annotations

from typing import Any

from graph_quant.eager import dynamic
from graph_quant.meta.dynamic_quant_asymmetric import OPERATOR, check
from graph_quant.reference.dynamic_quant_asymmetric import dynamic_quant_asymmetric
from torch import Tensor

__all__ = ["OPERATOR", "compute"]


def compute(x: Tensor, **options: Any) -> tuple[Tensor, ...]:
    """The results of one call."""
    return dynamic_quant_asymmetric(x, *dynamic.inputs(x, check(x, **options), options))

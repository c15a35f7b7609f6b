"""Multiplies integer matrices and rescales the product."""

from __future__ import annotations

from typing import Any

from graph_quant.meta.quant_matmul import OPERATOR, check
from graph_quant.reference.quant_matmul import quant_matmul
from torch import Tensor

__all__ = ["OPERATOR", "compute"]


def compute(x1: Tensor, x2: Tensor, scale: Tensor, **options: Any) -> Tensor:
    """The result of one call."""
    plan = check(x1, x2, scale, **options)
    return quant_matmul(
        x1,
        x2,
        scale,
        offset=options.get("offset"),
        pertoken_scale=options.get("pertoken_scale"),
        bias=options.get("bias"),
        output=plan.output,
        packed_along_k=plan.packed_along_k,
    )

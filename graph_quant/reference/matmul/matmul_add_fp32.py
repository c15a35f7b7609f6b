"""_npu_matmul_add_fp32: C += x.T @ weight, in float32."""

from __future__ import annotations

from torch import Tensor


def add_product(x: Tensor, weight: Tensor, total: Tensor) -> tuple[()]:
    """Add the product to ``total`` in place."""
    total.addmm_(x.float().T, weight.float())
    return ()

"""npu_kronecker_quant: what may be passed, and what comes back.

x (tokens, m, n) is float16 or bfloat16, at most 262144 tokens of at most 256 by 256, n a multiple of eight;
kronecker_p1 is (m, m), kronecker_p2 (n, n), both of x's dtype. The results are int4, eight to an int32, and a float32
scale for each token. clip_ratio is above 0 and at most 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.destination import INT4, SCALAR_TYPES
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import ND, Rules
from graph_quant.reference.quant.kronecker_quant import kronecker_quant as reference
from torch import Tensor

MOST_TOKENS, LARGEST = 262144, 256


@dataclass(frozen=True)
class KroneckerQuantPlan(Plan):
    """``ratio`` is the clip ratio: the fraction of a token's largest magnitude at which int4 saturates."""

    ratio: float


@operator("npu_kronecker_quant", reference=reference)
def kronecker_quant(
    rules: Rules,
    x: Tensor,
    kronecker_p1: Tensor,
    kronecker_p2: Tensor,
    clip_ratio: float | None,
    dst_dtype: torch.dtype | int | None,
    dst_type_max: float | None,
) -> KroneckerQuantPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("x", x, (torch.float16, torch.bfloat16))
    rules.rank("x", x, 3)
    rules.not_empty("x", x)
    for dim, most in enumerate((MOST_TOKENS, LARGEST, LARGEST)):
        size = x.size(dim)
        rules.require(size <= most, lambda: f"x.size({dim}) must be at most {most}, got {size}")  # noqa: B023
    width = x.size(2)
    rules.require(width % INT4.packing == 0, lambda: f"x.size(2) must be a multiple of {INT4.packing}, got {width}")
    for name, matrix, dim in (("kronecker_p1", kronecker_p1, 1), ("kronecker_p2", kronecker_p2, 2)):
        rules.dtype(name, matrix, (x.dtype,), ", the dtype of x")
        rules.rank(name, matrix, 2)
        for side in (0, 1):
            rules.equal(f"{name}.size({side})", matrix.size(side), f"x.size({dim})", x.size(dim))
    ratio = 1.0 if clip_ratio is None else clip_ratio
    rules.require(0 < ratio <= 1, lambda: f"clip_ratio must be above 0 and at most 1, got {clip_ratio}")
    kind = SCALAR_TYPES.get(dst_dtype) if isinstance(dst_dtype, int) else dst_dtype
    rules.require(
        kind in (None, torch.int32) and (dst_dtype is None or kind is not None),
        lambda: f"dst_dtype must be None or torch.int32 on A2 and A3, got {dst_dtype}",
    )
    rules.require(not dst_type_max, lambda: f"dst_type_max is for Ascend 950, leave it None or 0, got {dst_type_max}")
    rules.format("x", x, ND)
    results = (
        Result((x.size(0), x.size(1), width // INT4.packing), torch.int32),
        Result((x.size(0),), torch.float32),
    )
    return KroneckerQuantPlan(results, ratio)

"""npu_rms_norm_quant: argument rules and results.

x is float16 or bfloat16 of one to eight dimensions, not empty. gamma and beta have its dtype and the
shape (n,) or (1, n) with n = x.size(-1). scale is one element in the dtype of x, offset one int8. The result is int8,
or int4 packed in int32.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.destination import INT4, INT8, Destination
from graph_quant.meta.norm.rms import check_positive_epsilon
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.norm.rms_norm_quant import rms_norm_quant as reference
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class RmsNormQuantPlan(Plan):
    """``destination`` is the integer type of the result."""

    destination: Destination


@operator("npu_rms_norm_quant", reference=reference)
def rms_norm_quant(
    rules: Rules,
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    scale: Tensor,
    offset: Tensor,
    epsilon: float,
    dst_dtype: int | None,
) -> RmsNormQuantPlan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("x", x, HALVES)
    rules.rank("x", x, 1, 8)
    rules.not_empty("x", x)
    for name, row in (("gamma", gamma), ("beta", beta)):
        rules.dtype(name, row, (x.dtype,), ", the dtype of x")
        rules.rank(name, row, 1, 2)
        rules.equal(f"{name}.size(-1)", row.size(-1), "x.size(-1)", x.size(-1))
        if row.dim() == 2:
            rules.equal(f"{name}.size(0)", row.size(0), "1", 1)
    rules.rank("beta", beta, gamma.dim(), why=", as gamma has")
    for name, one, dtype in (("scale", scale, x.dtype), ("offset", offset, torch.int8)):
        rules.dtype(name, one, (dtype,))
        rules.rank(name, one, 1)
        rules.equal(f"{name}.size(0)", one.size(0), "1", 1)
    check_positive_epsilon(rules, epsilon)
    destination = rules.destination("dst_dtype", dst_dtype, (INT8, INT4))
    rules.packable("x.size(-1)", x.size(-1), destination)
    return RmsNormQuantPlan((Result(destination.stored_shape(x.shape), destination.storage),), destination)

"""npu_rms_norm_quant: argument rules and results.

x is float16 or bfloat16 of one to eight dimensions, not empty. gamma and beta have its dtype and the
shape (n,) or (1, n) with n = x.size(-1). scale is one element in the dtype of x, offset one int8. The result is int8,
or int4 packed in int32.

On Ascend 950 x is also float32 and the result float8_e4m3fn, float8_e5m2 or, in uint8, HiFloat8. scale is one number
or one for each column, in the dtype of x or float32; offset is like scale: of its dtype, int8 beside a half, or int32
beside float32 and an x of halves. npu_rms_norm_quant_v2, which only that chip has, does without offset and beta and may
multiply.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.destination import INT4, INT8, NARROW, Destination
from graph_quant.meta.norm.rms import check_positive_epsilon
from graph_quant.meta.norm.static_quant import check_scale_dtypes
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.norm.rms_norm_quant import rms_norm_quant as reference
from graph_quant.reference.norm.rms_norm_quant import rms_norm_quant_v2 as v2_reference
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class RmsNormQuantPlan(Plan):
    """``destination`` is the integer type of the result."""

    destination: Destination


@operator("npu_rms_norm_quant", reference=reference, chips=A2_A3_950)
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
    if rules.chip is ASCEND_950:
        y, destination = _check_950(rules, x, gamma, scale, offset, beta, dst_dtype)
        return RmsNormQuantPlan((y,), destination)
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


@operator("npu_rms_norm_quant_v2", reference=v2_reference, chips=(ASCEND_950,))
def rms_norm_quant_v2(
    rules: Rules,
    x: Tensor,
    gamma: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    beta: Tensor | None,
    epsilon: float,  # noqa: ARG001
    div_mode: bool,  # noqa: ARG001
    dst_dtype: int | None,
) -> RmsNormQuantPlan:
    """Check a call against the documented rules and return its plan."""
    y, destination = _check_950(rules, x, gamma, scale, offset, beta, dst_dtype)
    return RmsNormQuantPlan((y, Result((0,), torch.float32)), destination)


def _check_950(
    rules: Rules,
    x: Tensor,
    gamma: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    beta: Tensor | None,
    dst_dtype: int | None,
) -> tuple[Result, Destination]:
    rules.dtype("x", x, FLOATS)
    rules.rank("x", x, 1, 8)
    rules.not_empty("x", x)
    for name, row in (("gamma", gamma), ("beta", beta)):
        if row is not None:
            rules.dtype(name, row, (x.dtype,), ", the dtype of x")
            rules.rank(name, row, 1, 2)
            rules.equal(f"{name}.size(-1)", row.size(-1), "x.size(-1)", x.size(-1))
            if row.dim() == 2:
                rules.equal(f"{name}.size(0)", row.size(0), "1", 1)
    check_scale_dtypes(rules, "x", x, "scale", scale, {"offset": offset}, may_be_int8=True)
    rules.rank("scale", scale, 1)
    rules.one_or("scale.size(0)", scale.size(0), "x.size(-1)", x.size(-1))
    if offset is not None:
        rules.rank("offset", offset, 1)
        rules.equal("offset.size(0)", offset.size(0), "scale.size(0)", scale.size(0))
    destination = rules.destination("dst_dtype", dst_dtype, (INT8, INT4, *NARROW))
    rules.packable("x.size(-1)", x.size(-1), destination)
    return Result(destination.stored_shape(x.shape), destination.storage), destination

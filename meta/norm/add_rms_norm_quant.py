"""npu_add_rms_norm_quant: argument rules and results.

x1 and x2 have the same shape and dtype, float16 or bfloat16, one to eight dimensions; gamma and beta have their dtype
and the shape of the last dimensions, which are normalised. Scales and zero points have the shape of gamma: float32 and
int32, or all bfloat16 with a bfloat16 x1. Those of the first result may also be float16 and int8, which are widened.
With beta and without a second result they may have one element each, for which there is a separate kernel. dst_type is
int8.

On Ascend 950 x1 is also float32 and the result float8_e4m3fn, float8_e5m2 or, in uint8, HiFloat8. Scales have the dtype
of x1 or float32; zero points beside them the dtype of the scales, or int32 beside float32 ones of halves.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.destination import INT8, NARROW, Destination
from graph_quant.meta.norm.rms import check_terms, check_weight, like
from graph_quant.meta.norm.static_quant import check_scale_dtypes
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, statically_known_true
from graph_quant.reference.norm.add_rms_norm_quant import add_rms_norm_quant as reference
from graph_quant.refusals import UndescribedError
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class AddNormQuantPlan(Plan):
    """``per_tensor`` if one scale is for all elements; that is another kernel with another order of operations."""

    per_tensor: bool
    destination: Destination


@operator("npu_add_rms_norm_quant", reference=reference, chips=A2_A3_950)
def add_rms_norm_quant(
    rules: Rules,
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    scales1: Tensor,
    zero_points1: Tensor | None,
    beta: Tensor | None,
    scales2: Tensor | None,
    zero_points2: Tensor | None,
    axis: int,
    epsilon: float,  # noqa: ARG001
    div_mode: bool,
    dst_type: int | None,
) -> AddNormQuantPlan:
    """Check a call against the documented rules and return its plan."""
    is_950 = rules.chip is ASCEND_950
    check_terms(rules, x1, x2, FLOATS if is_950 else HALVES)
    rules.dtype("gamma", gamma, (x1.dtype,), ", the dtype of x1")
    rules.require(axis == -1, lambda: f"axis must be -1, got {axis}")
    destination = rules.destination("dst_type", dst_type, (INT8, *(NARROW if is_950 else ())))
    if is_950:
        _check_dtypes_950(rules, x1, scales1, zero_points1, scales2, zero_points2)
    else:
        _check_dtypes(rules, x1, scales1, zero_points1, scales2, zero_points2)
    one_scale = not is_950 and statically_known_true(scales1.numel() == 1) and scales1.dim() == 1
    is_alone = scales2 is None and zero_points2 is None and div_mode
    per_tensor = one_scale and is_alone and beta is not None and zero_points1 is not None
    if per_tensor and gamma.dim() == 2:
        rules.equal("gamma.size(0)", gamma.size(0), "1, beside one scale", 1)
        rules.equal("gamma.size(1)", gamma.size(1), "x1.size(-1)", x1.size(-1))
    else:
        check_weight(rules, "gamma", gamma, "x1", x1)
    named = {"beta": beta}
    if not per_tensor:
        named |= {"scales1": scales1, "zero_points1": zero_points1}
        named |= {"scales2": scales2, "zero_points2": zero_points2}
    elif zero_points1 is not None:
        rules.rank("zero_points1", zero_points1, 1)
        rules.equal("zero_points1.size(0)", zero_points1.size(0), "1, beside one scale", 1)
    for name, row in named.items():
        if row is not None:
            _check_like_gamma(rules, name, row, gamma)
    if beta is not None:
        rules.dtype("beta", beta, (x1.dtype,), ", the dtype of x1")
    y = Result(tuple(x1.shape), destination.storage)
    return AddNormQuantPlan((y, y, like(x1)), per_tensor, destination)


def _check_like_gamma(rules: Rules, name: str, row: Tensor, gamma: Tensor) -> None:
    rules.rank(name, row, gamma.dim(), why=", as gamma has")
    for dim in range(gamma.dim()):
        rules.equal(f"{name}.size({dim})", row.size(dim), f"gamma.size({dim})", gamma.size(dim))


def _check_dtypes_950(
    rules: Rules,
    x1: Tensor,
    scales1: Tensor,
    zero_points1: Tensor | None,
    scales2: Tensor | None,
    zero_points2: Tensor | None,
) -> None:
    named = {"zero_points1": zero_points1, "zero_points2": zero_points2}
    check_scale_dtypes(rules, "x1", x1, "scales1", scales1, named)
    if scales2 is not None:
        rules.dtype("scales2", scales2, (scales1.dtype,), ", the dtype of scales1")
    elif zero_points2 is not None:
        raise UndescribedError(f"{rules.op}: zero_points2 without scales2 is not described for Ascend 950")
    if zero_points1 is not None and zero_points2 is not None:
        rules.dtype("zero_points2", zero_points2, (zero_points1.dtype,), ", the dtype of zero_points1")


def _check_dtypes(
    rules: Rules,
    x1: Tensor,
    scales1: Tensor,
    zero_points1: Tensor | None,
    scales2: Tensor | None,
    zero_points2: Tensor | None,
) -> None:
    halves = HALVES if x1.dtype == torch.bfloat16 else HALVES[:1]
    rules.dtype("scales1", scales1, (torch.float32, *halves), f" beside x1 of {x1.dtype}")
    is_bfloat16 = scales1.dtype == torch.bfloat16
    beside = f" beside scales1 of {scales1.dtype}"
    kinds = (torch.bfloat16,) if is_bfloat16 else (torch.int32,)
    if zero_points1 is not None:
        rules.dtype("zero_points1", zero_points1, kinds if is_bfloat16 else (torch.int32, torch.int8), beside)
    if scales2 is not None:
        rules.dtype("scales2", scales2, (torch.bfloat16 if is_bfloat16 else torch.float32,), beside)
    if zero_points2 is not None:
        rules.dtype("zero_points2", zero_points2, kinds, beside)

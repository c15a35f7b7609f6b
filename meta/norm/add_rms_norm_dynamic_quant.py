"""npu_add_rms_norm_dynamic_quant: argument rules and results.

x1 and x2 have the same shape and dtype, float16 or bfloat16, two to eight dimensions. gamma, beta and the smooth scales
are vectors of size x1.size(-1) in the dtype of x1. output_mask selects the quantisations: at least one, and every one
whose smooth scale is given. Without it the first is computed, and the second if both smooth scales are given; the
second smooth scale alone is refused. A result that is not selected is a scalar without meaning. Results are int8 or
int4, on Ascend 950 also float8_e4m3fn, float8_e5m2 or, in uint8, HiFloat8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.destination import INT4, INT8, NARROW, Destination
from graph_quant.meta.norm.rms import check_positive_epsilon, check_sum, like
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.norm.add_rms_norm_dynamic_quant import add_rms_norm_dynamic_quant as reference
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class NormQuantPlan(Plan):
    """``outputs`` says which of the two quantisations is computed."""

    destination: Destination
    outputs: tuple[bool, bool]


@operator("npu_add_rms_norm_dynamic_quant", reference=reference, chips=A2_A3_950)
def add_rms_norm_dynamic_quant(
    rules: Rules,
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    smooth_scale1: Tensor | None,
    smooth_scale2: Tensor | None,
    beta: Tensor | None,
    epsilon: float,
    output_mask: Sequence[bool] | None,
    y_dtype: torch.dtype | int | None,
) -> NormQuantPlan:
    """Check a call against the documented rules and return its plan."""
    check_sum(rules, x1, x2, gamma, HALVES, may_lack_rows=True)
    rules.rank("x1", x1, 2, 8)
    rows = {"gamma": gamma, "smooth_scale1": smooth_scale1, "smooth_scale2": smooth_scale2, "beta": beta}
    for name, row in rows.items():
        if row is not None:
            rules.dtype(name, row, (x1.dtype,), ", the dtype of x1")
            rules.rank(name, row, 1)
            rules.equal(f"{name}.size(0)", row.size(0), "x1.size(-1)", x1.size(-1))
    check_positive_epsilon(rules, epsilon)
    outputs = _select_outputs(rules, output_mask, (smooth_scale1, smooth_scale2))
    destination = rules.destination("y_dtype", y_dtype, (INT8, INT4, *(NARROW if rules.chip is ASCEND_950 else ())))
    rules.packable("x1.size(-1)", x1.size(-1), destination)
    y = Result(destination.stored_shape(x1.shape), destination.storage)
    scale = Result(tuple(x1.shape[:-1]), torch.float32)
    ys = [y if wanted else Result((), destination.storage) for wanted in outputs]
    scales = [scale if wanted else Result((), torch.float32) for wanted in outputs]
    return NormQuantPlan((*ys, like(x1), *scales), destination, outputs)


def _select_outputs(
    rules: Rules, mask: Sequence[bool] | None, smooth: tuple[Tensor | None, Tensor | None]
) -> tuple[bool, bool]:
    if mask is None:
        rules.require(
            smooth[0] is not None or smooth[1] is None,
            lambda: "smooth_scale1 must be given beside smooth_scale2 without output_mask, got None",
        )
        return True, smooth[1] is not None
    rules.require(len(mask) == 2, lambda: f"output_mask must have 2 elements, got {list(mask)}")
    rules.require(any(mask), lambda: f"output_mask must be True for one result at least, got {list(mask)}")
    for index, (wanted, scale) in enumerate(zip(mask, smooth, strict=True)):
        rules.require(
            wanted or scale is None,
            lambda index=index: f"output_mask[{index}] must be True beside smooth_scale{index + 1}, got {list(mask)}",  # type: ignore[misc]
        )
    return bool(mask[0]), bool(mask[1])

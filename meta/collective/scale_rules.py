"""Rules for the scales of int8 matmuls whose rows are gathered or scattered."""

from __future__ import annotations

import torch
from graph_quant.destination import BFLOAT16, FLOAT16
from graph_quant.meta.collective.matmul_rules import HALVES, check_none
from graph_quant.meta.rules import Rules
from torch import Tensor

_DESTINATIONS = {torch.float16: (FLOAT16,), torch.bfloat16: (BFLOAT16,), torch.int8: (FLOAT16, BFLOAT16)}


def check_scales(rules: Rules, x1: Tensor, x2: Tensor, x1_scale: Tensor | None, x2_scale: Tensor | None) -> bool:
    """Check the scales and return whether they are packed."""
    rules.dtype("input", x1, (*HALVES, torch.int8))
    rules.dtype("x2", x2, (x1.dtype,), ", as input is")
    if x1.dtype != torch.int8:
        check_none(rules, f" for {x1.dtype} input", x1_scale=x1_scale, x2_scale=x2_scale)
        return False
    rules.require(x2_scale is not None, lambda: "x2_scale must be given for int8 input, got None")
    assert x2_scale is not None
    rules.dtype("x2_scale", x2_scale, (torch.float32, torch.int64))
    rules.rank("x2_scale", x2_scale, 2)
    rules.equal("x2_scale.size(0)", x2_scale.size(0), "1", 1)
    rules.equal("x2_scale.size(1)", x2_scale.size(1), "x2.size(1)", x2.size(1))
    if x1_scale is not None:
        rules.dtype("x1_scale", x1_scale, (torch.float32,))
        rules.rank("x1_scale", x1_scale, 2)
        rules.equal("x1_scale.size(0)", x1_scale.size(0), "input.size(0)", x1.size(0))
        rules.equal("x1_scale.size(1)", x1_scale.size(1), "1", 1)
    packed = x2_scale.dtype == torch.int64
    rules.require(
        x1_scale is None or not packed,
        lambda: "x1_scale must be None beside a packed x2_scale, got one: what the device computes is not known here",
    )
    return packed


def base_output(
    rules: Rules, x1: Tensor, packed: bool, output_dtype: torch.dtype | None, comm_mode: str | None
) -> torch.dtype:
    """The dtype of a product that npu_all_gather_base_mm and npu_mm_reduce_scatter_base compute."""
    rules.one_of("comm_mode", comm_mode, (None, "ai_cpu", "aiv"))
    if x1.dtype != torch.int8:
        check_none(rules, f" for {x1.dtype} input", output_dtype=output_dtype)
        return x1.dtype
    rules.one_of("comm_mode", comm_mode, ("aiv",), " for int8 input")
    if packed:
        rules.one_of("output_dtype", output_dtype, (None, torch.float16), " for a packed x2_scale")
        return torch.float16
    rules.one_of("output_dtype", output_dtype, (None, *HALVES))
    return output_dtype or torch.bfloat16


def quantised_output(rules: Rules, x1: Tensor, packed: bool, y_dtype: int | None) -> torch.dtype:
    """The dtype for npu_all_gather_quant_mm and npu_quant_mm_reduce_scatter, which require y_dtype for int8."""
    if y_dtype is None and x1.dtype != torch.int8:
        return x1.dtype
    return rules.destination("y_dtype", y_dtype, (FLOAT16,) if packed else _DESTINATIONS[x1.dtype]).storage

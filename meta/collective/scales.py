"""The scales of a gathered or scattered product: for int8 alone, and with comm_mode "aiv" alone."""

from __future__ import annotations

import torch
from graph_quant.meta.collective.products import HALVES
from graph_quant.meta.rules import Rules
from torch import Tensor


def check_scales(
    rules: Rules,
    name: str,
    x1: Tensor,
    x2: Tensor,
    x1_scale: Tensor | None,
    x2_scale: Tensor | None,
    output_dtype: torch.dtype | None,
    comm_mode: str | None,
) -> torch.dtype:
    """The dtype of the product."""
    rules.one_of("comm_mode", comm_mode, (None, "ai_cpu", "aiv"))
    rules.dtype(name, x1, (*HALVES, torch.int8))
    rules.dtype("x2", x2, (x1.dtype,), f", as {name} is")
    if x1.dtype != torch.int8:
        for argument, value in (("x1_scale", x1_scale), ("x2_scale", x2_scale), ("output_dtype", output_dtype)):
            rules.require(value is None, lambda: f"{argument} must be None for {x1.dtype} {name}, got one")  # noqa: B023
        return x1.dtype
    rules.one_of("comm_mode", comm_mode, ("aiv",), f" for int8 {name}")
    rules.require(x2_scale is not None, lambda: f"x2_scale must be given for int8 {name}, got None")
    assert x2_scale is not None
    rules.dtype("x2_scale", x2_scale, (torch.float32, torch.int64))
    rules.rank("x2_scale", x2_scale, 2)
    rules.equal("x2_scale.size(0)", x2_scale.size(0), "1", 1)
    rules.equal("x2_scale.size(1)", x2_scale.size(1), "x2.size(1)", x2.size(1))
    if x1_scale is not None:
        rules.dtype("x1_scale", x1_scale, (torch.float32,))
        rules.rank("x1_scale", x1_scale, 2)
        rules.equal("x1_scale.size(0)", x1_scale.size(0), f"{name}.size(0)", x1.size(0))
        rules.equal("x1_scale.size(1)", x1_scale.size(1), "1", 1)
    if x2_scale.dtype == torch.int64:
        rules.require(
            x1_scale is None,
            lambda: (
                "x1_scale must be None beside a packed x2_scale, got one: what the device computes is not known here"
            ),
        )
        rules.one_of("output_dtype", output_dtype, (None, torch.float16), " for a packed x2_scale")
        return torch.float16
    rules.one_of("output_dtype", output_dtype, (None, *HALVES))
    return output_dtype or torch.bfloat16

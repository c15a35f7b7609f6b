"""npu_quant_matmul_gelu: what may be passed, and what comes back.

x1 (…, m, k) and x2 (…, k, n) are int8 of two to six dimensions whose leading ones broadcast, or int32 holding int4: x1
(…, m, k/8) and x2 (k, n/8), or (k/8, n) as a transposed view. x1_scale is (m,), x2_scale (1,) or (n,), bias (n,) or,
for results of three dimensions, (batch, 1, n). The result is bfloat16 if x2_scale or bias is, else float16.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.destination import BFLOAT16, FLOAT16, Destination
from graph_quant.meta.matmul.shapes import LONGEST, broadcast, check_bias, check_depth
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.matmul.quant_matmul_gelu import GELUS
from graph_quant.reference.matmul.quant_matmul_gelu import quant_matmul_gelu as reference
from torch import Tensor


@dataclass(frozen=True)
class QuantMatmulGeluPlan(Plan):
    """``gelu`` is the node's fused_op_type; ``packed_along_k`` if int4 of x2 is packed along k."""

    output: Destination
    gelu: str
    int4: bool
    packed_along_k: bool


@operator("npu_quant_matmul_gelu", reference=reference)
def quant_matmul_gelu(
    rules: Rules,
    x1: Tensor,
    x2: Tensor,
    x1_scale: Tensor,
    x2_scale: Tensor,
    bias: Tensor | None,
    approximate: str | None,
) -> QuantMatmulGeluPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("x1", x1, (torch.int8, torch.int32))
    rules.dtype("x2", x2, (x1.dtype,), ", the dtype of x1")
    int4 = x1.dtype == torch.int32
    rules.rank("x1", x1, 2, 6)
    rules.rank("x2", x2, 2, None if int4 else 6, why=" when it holds int4" if int4 else "")
    packed_along_k, columns = check_depth(rules, x1, x2, int4)
    shape = (*broadcast(rules, x1.shape[:-2], x2.shape[:-2]), x1.size(-2), columns)
    for name, tensor in (("x1", x1), ("x2", x2)):
        size = tensor.size(-1)
        rules.require(size <= LONGEST, lambda: f"{name}.size(-1) must be at most {LONGEST}, got {size}")  # noqa: B023
    rules.dtype("x1_scale", x1_scale, (torch.float32,))
    rules.rank("x1_scale", x1_scale, 1)
    rules.equal("x1_scale.size(0)", x1_scale.size(0), "m", x1.size(-2))
    rules.dtype("x2_scale", x2_scale, (torch.float32, torch.bfloat16))
    rules.rank("x2_scale", x2_scale, 1)
    rules.one_or("x2_scale.size(0)", x2_scale.size(0), "n", columns)
    if bias is not None:
        rules.dtype("bias", bias, (torch.int32,) if int4 else (torch.int32, *FLOATS), f" for x1 {x1.dtype}")
        check_bias(rules, bias, shape, int4)
    gelu = "gelu_erf" if approximate is None else approximate
    rules.require(gelu in GELUS, lambda: f"approximate must be 'gelu_tanh' or 'gelu_erf', got {gelu!r}")
    wide = torch.bfloat16 in (x2_scale.dtype, None if bias is None else bias.dtype)
    output = BFLOAT16 if wide else FLOAT16
    return QuantMatmulGeluPlan((Result(shape, output.storage),), output, gelu, int4, packed_along_k)

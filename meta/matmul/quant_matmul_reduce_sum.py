"""npu_quant_matmul_reduce_sum: what may be passed, and what comes back.

x1 (b, m, k) and x2 (b, k, n) are int8; x1_scale (b, m) is float32 and x2_scale (n,) bfloat16. Neither is optional,
although the schema allows None. x2 is in FRACTAL_NZ. The result is bfloat16 (m, n).
"""

from __future__ import annotations

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import ND, NZ, Rules
from graph_quant.reference.matmul.quant_matmul_reduce_sum import quant_matmul_reduce_sum as reference
from torch import Tensor


@operator("npu_quant_matmul_reduce_sum", reference=reference)
def quant_matmul_reduce_sum(
    rules: Rules, x1: Tensor, x2: Tensor, x1_scale: Tensor | None, x2_scale: Tensor | None
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    for name, operand in (("x1", x1), ("x2", x2)):
        rules.dtype(name, operand, (torch.int8,))
        rules.rank(name, operand, 3)
        rules.not_empty(name, operand)
    rules.equal("x2.size(0)", x2.size(0), "x1.size(0)", x1.size(0))
    rules.equal("x2.size(1)", x2.size(1), "x1.size(2)", x1.size(2))
    if x1_scale is None or x2_scale is None:
        rules.refuse("x1_scale and x2_scale must be given, got None")
    rules.dtype("x1_scale", x1_scale, (torch.float32,))
    rules.rank("x1_scale", x1_scale, 2)
    for dim in (0, 1):
        rules.equal(f"x1_scale.size({dim})", x1_scale.size(dim), f"x1.size({dim})", x1.size(dim))
    rules.dtype("x2_scale", x2_scale, (torch.bfloat16,))
    rules.rank("x2_scale", x2_scale, 1)
    rules.equal("x2_scale.size(0)", x2_scale.size(0), "x2.size(2)", x2.size(2))
    rules.format("x1", x1, ND)
    rules.format("x2", x2, NZ)
    return Plan((Result((x1.size(1), x2.size(2)), torch.bfloat16),))

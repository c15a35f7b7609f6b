"""ATB's _npu_matmul_add_fp32: C += x.T @ weight, for the gradients of weights."""

from __future__ import annotations

import torch
from graph_quant.meta import atb  # noqa: F401 (it defines the operator)
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.matmul.matmul_add_fp32 import add_product
from torch import Tensor


@operator("atb::_npu_matmul_add_fp32", reference=add_product)
def matmul_add_fp32(rules: Rules, x: Tensor, weight: Tensor, total: Tensor) -> Plan:
    """The plan of a call that the library allows; any other call is refused."""
    rules.dtype("x", x, (torch.float16, torch.bfloat16))
    rules.dtype("weight", weight, (x.dtype,), ", the dtype of x")
    rules.dtype("C", total, (torch.float32,))
    for name, tensor in (("x", x), ("weight", weight), ("C", total)):
        rules.rank(name, tensor, 2)
    rules.equal("weight.size(0)", weight.size(0), "x.size(0)", x.size(0))
    rules.equal("C.size(0)", total.size(0), "x.size(1)", x.size(1))
    rules.equal("C.size(1)", total.size(1), "weight.size(1)", weight.size(1))
    return Plan(())

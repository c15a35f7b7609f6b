"""The operator: its schema, its reference, the kernel of its GE node, and its record."""

import torch
from graph_quant.extension import Plan, Result, Rules, kernel, operator
from torch import Tensor

FLOATS = (torch.float16, torch.bfloat16, torch.float32)

# 1. The schema: what a caller can type.
torch.library.define("custom_operator::row_quant", "(Tensor x, Tensor scale, int bound=127) -> Tensor")


# 2. The reference: what the operator computes, in plain traceable torch. Its parameters are arguments of the operator
#    or fields of the plan, by name. It may assume that the rules hold.
def row_quant(x: Tensor, scale: Tensor, bound: int) -> Tensor:
    """Divide in float32, round half to even, saturate."""
    quotient = x.float() / scale.unsqueeze(-1)
    return quotient.round().clamp(-bound, bound).to(torch.int8)


# 3. The kernel: how the host runs the GE node that the lowering emits. Positional parameters are the node's inputs,
#    keyword-only ones its attributes with their defaults. `flops` is the number of operations per element, for costs.
@kernel("RowQuant", flops=3)
def row_quant_node(x: Tensor, scale: Tensor, *, bound: int = 127) -> Tensor:
    """RowQuant has the inputs x and scale, the attribute bound and the output y."""
    return row_quant(x, scale, bound)


# 4. The record: the rules decide whether a call is valid and what its results look like. Shape inference, eager
#    execution and lowering all follow from it. Parameters after `rules` are all arguments of the schema, in its order.
@operator("custom_operator::row_quant", reference=row_quant)
def rules_of_row_quant(rules: Rules, x: Tensor, scale: Tensor, bound: int) -> Plan:
    """Refuse what is not documented; return the results without their values."""
    rules.rank("x", x, 2)
    rules.dtype("x", x, FLOATS)
    rules.rank("scale", scale, 1)
    rules.dtype("scale", scale, (torch.float32,))
    rules.equal("scale.size(0)", scale.size(0), "x.size(0)", x.size(0))
    rules.require(1 <= bound <= 127, lambda: f"bound must be from 1 to 127, got {bound}")
    return Plan((Result((x.size(0), x.size(1)), torch.int8),))

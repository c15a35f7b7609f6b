"""npu_grouped_matmul_add and its in-place form: what may be passed. The product x.T @ weight of each group is added.

x is (k, m), weight (k, n), both float16 or both bfloat16, input float32 with groups * m * n elements, group_list the
int64 ends of the groups of k. Only transpose_x True and transpose_weight False are supported, as in the kernels.
"""

from __future__ import annotations

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import ND, Rules
from graph_quant.reference.matmul import grouped_matmul_add as reference
from torch import Tensor

ALONG_K = 2
MOST_GROUPS = 1024


@operator("npu_grouped_matmul_add_", reference=reference.grouped_matmul_add_, results=lambda _: ("summed",))
@operator("npu_grouped_matmul_add", reference=reference.grouped_matmul_add)
def grouped_matmul_add(
    rules: Rules,
    summed: Tensor,
    x: Tensor,
    weight: Tensor,
    group_list: Tensor,
    transpose_x: bool,
    transpose_weight: bool,
    group_type: int,
    group_list_type: int | None,
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("x", x, (torch.float16, torch.bfloat16))
    rules.dtype("weight", weight, (x.dtype,), ", the dtype of x")
    for name, operand in (("x", x), ("weight", weight)):
        rules.rank(name, operand, 2)
    rules.equal("weight.size(0)", weight.size(0), "x.size(0)", x.size(0))
    rules.dtype("group_list", group_list, (torch.int64,))
    rules.rank("group_list", group_list, 1)
    groups = group_list.size(0)
    rules.require(groups <= MOST_GROUPS, lambda: f"group_list.size(0) must be at most {MOST_GROUPS}, got {groups}")
    rules.dtype("input", summed, (torch.float32,))
    rules.equal("input.numel()", summed.numel(), "the elements of all products", groups * x.size(1) * weight.size(1))
    rules.one_of("transpose_x", transpose_x, (True,))
    rules.one_of("transpose_weight", transpose_weight, (False,))
    rules.one_of("group_type", group_type, (ALONG_K,))
    # torch_npu does not pass it to the kernels of A2 and A3, which would read counts as ends.
    rules.one_of("group_list_type", group_list_type, (None, 0), ", ends, on A2 and A3")
    for name, operand in (("x", x), ("weight", weight)):
        rules.format(name, operand, ND)
    return Plan((Result(tuple(summed.shape), summed.dtype),))

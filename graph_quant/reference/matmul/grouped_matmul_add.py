"""npu_grouped_matmul_add: adds ``x.T @ weight`` of each group's rows to the group's matrix.

A product is summed in float32, and then added. The matrix of an empty group is unchanged; rows after the last group are
not used.
"""

from __future__ import annotations

import torch
from graph_quant.reference.grouping import ENDS, spans
from graph_quant.reference.half_products import multiply
from torch import Tensor

OP = "npu_grouped_matmul_add"


def grouped_matmul_add(summed: Tensor, x: Tensor, weight: Tensor, group_list: Tensor) -> Tensor:
    """The sums in a new tensor."""
    return grouped_matmul_add_(summed.clone(memory_format=torch.contiguous_format), x, weight, group_list)


def grouped_matmul_add_(summed: Tensor, x: Tensor, weight: Tensor, group_list: Tensor) -> Tensor:
    """Add the products to ``summed`` in place."""
    groups = group_list.size(0)
    total = summed.reshape(groups, x.size(1), weight.size(1))
    for span in spans(OP, group_list, ENDS, groups, x.size(0)):
        total[span.weight] += multiply(x[span.as_slice].T, weight[span.as_slice])
    return summed.copy_(total.view_as(summed))

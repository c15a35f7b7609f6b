"""npu_mm_all_reduce_base: the product of each rank, and the sum of them on every rank.

A rank's product is rounded to the result's dtype, x3 is added to it there, on every rank, and ranks add in that dtype,
rounding after each addition. With two ranks there is one addition; the order of more is not documented.
"""

from __future__ import annotations

import torch
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.collective.exchange import group_all_reduce
from graph_quant.reference.collective.products import float_product, int8_product
from graph_quant.reference.matmul.weight_quant_batchmatmul import weight_quant_batchmatmul
from torch import Tensor


def mm_all_reduce_base(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    bias: Tensor | None,
    antiquant_scale: Tensor | None,
    antiquant_offset: Tensor | None,
    x3: Tensor | None,
    dequant_scale: Tensor | None,
    pertoken_scale: Tensor | None,
    antiquant_group_size: int,
    output: torch.dtype,
) -> Tensor:
    """The sum over the ranks of group ``hcom``."""
    if dequant_scale is not None:
        product = int8_product(x1, x2, dequant_scale, pertoken_scale, bias, output)
    elif antiquant_scale is not None:
        rows = x1.reshape(-1, x1.size(-1))
        values = weight_quant_batchmatmul(
            rows, x2, antiquant_scale, antiquant_offset, bias=bias, antiquant_group_size=antiquant_group_size
        )
        product = values.reshape(*x1.shape[:-1], x2.size(1))
    else:
        product = float_product(x1, x2, bias)
    return group_all_reduce(product if x3 is None else product + x3, "sum", hcom)


@kernel("MatmulAllReduce", flops=CONTRACTION)
def mm_all_reduce_node(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None = None,
    x3: Tensor | None = None,
    antiquant_scale: Tensor | None = None,
    antiquant_offset: Tensor | None = None,
    dequant_scale: Tensor | None = None,
    pertoken_scale: Tensor | None = None,
    *,
    group: str,
    is_trans_a: bool = False,
    is_trans_b: bool = False,
    antiquant_group_size: int = 0,
) -> Tensor:
    halves = dequant_scale is not None and dequant_scale.dtype == torch.bfloat16
    output = x1.dtype if dequant_scale is None else (torch.bfloat16 if halves else torch.float16)
    return mm_all_reduce_base(
        x1.mT if is_trans_a else x1,
        x2.mT if is_trans_b else x2,
        group,
        bias,
        antiquant_scale,
        antiquant_offset,
        x3,
        dequant_scale,
        pertoken_scale,
        antiquant_group_size,
        output,
    )

"""npu_mm_all_reduce_base: a matmul on each rank, then an all-reduce of the products.

The product is rounded to the dtype of the result, and every rank adds x3 in that dtype. Ranks add in that dtype too and
round after each addition. The order of addition for more than two ranks is not documented.

With comm_quant_scale_1 and _2, which are per column, ranks communicate int8: the product is divided by the first scale
and rounded; the sum of the integers is multiplied by the first scale over the second and rounded again; the result is
multiplied by the second scale. float16 is scaled in float16, bfloat16 in float32. Integers are rounded half to even
from float16 and saturate to int8.
"""

from __future__ import annotations

import torch
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.collective.functional_collectives import group_all_reduce
from graph_quant.reference.collective.local_matmul import dequant_matmul, float_matmul
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
    comm_quant_scale_1: Tensor | None,
    comm_quant_scale_2: Tensor | None,
    antiquant_group_size: int,
    output: torch.dtype,
) -> Tensor:
    """The sum of the products over the ranks of group ``hcom``."""
    if dequant_scale is not None:
        product = dequant_matmul(x1, x2, dequant_scale, pertoken_scale, bias, output)
    elif antiquant_scale is not None:
        rows = x1.reshape(-1, x1.size(-1))
        values = weight_quant_batchmatmul(
            rows, x2, antiquant_scale, antiquant_offset, bias=bias, antiquant_group_size=antiquant_group_size
        )
        product = values.reshape(*x1.shape[:-1], x2.size(1))
    else:
        product = float_matmul(x1, x2, bias)
    product = product if x3 is None else product + x3
    if comm_quant_scale_1 is None or comm_quant_scale_2 is None:
        return group_all_reduce(product, "sum", hcom)
    return _all_reduce_int8(product, comm_quant_scale_1.reshape(-1), comm_quant_scale_2.reshape(-1), hcom)


def _all_reduce_int8(product: Tensor, first: Tensor, second: Tensor, hcom: str) -> Tensor:
    wide = product.float() if product.dtype == torch.bfloat16 else product
    total = group_all_reduce(_round_to_int8_range(wide / first.to(wide.dtype)), "sum", hcom)
    requantised = _round_to_int8_range(total.float() * (first.float() / second.float()))
    return (requantised.to(wide.dtype) * second.to(wide.dtype)).to(product.dtype)


def _round_to_int8_range(values: Tensor) -> Tensor:
    return values.half().round().nan_to_num(nan=0.0).clamp(-128, 127).to(torch.int32)


@kernel("MatmulAllReduce", flops=CONTRACTION, idle=("comm_turn", "comm_mode", "y_dtype"))
def mm_all_reduce_node(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None = None,
    x3: Tensor | None = None,
    antiquant_scale: Tensor | None = None,
    antiquant_offset: Tensor | None = None,
    dequant_scale: Tensor | None = None,
    pertoken_scale: Tensor | None = None,
    comm_quant_scale_1: Tensor | None = None,
    comm_quant_scale_2: Tensor | None = None,
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
        comm_quant_scale_1,
        comm_quant_scale_2,
        antiquant_group_size,
        output,
    )

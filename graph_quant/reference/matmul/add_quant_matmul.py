"""npu_add_quant_matmul on Ascend 950: adds a product of float8 or HiFloat8 to float32, for gradients of weights.

The product is that of npu_quant_matmul in float32: in MX blocks, or of HiFloat8 with one scale for each operand, whose
product is cut to 19 bits. It is added with one rounding.
"""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.matmul.narrow_products import carried
from graph_quant.reference.matmul.quant_matmul_950 import scaled_narrow_product
from graph_quant.refusals import UndescribedError
from torch import Tensor


def add_quant_matmul(
    summed: Tensor, x1: Tensor, x2: Tensor, x2_scale: Tensor, x1_scale: Tensor, x1_name: str, x2_name: str
) -> Tensor:
    """The sum in a new tensor."""
    copy = summed.clone(memory_format=torch.contiguous_format)
    return add_quant_matmul_(copy, x1, x2, x2_scale, x1_scale, x1_name, x2_name)


def add_quant_matmul_(
    summed: Tensor, x1: Tensor, x2: Tensor, x2_scale: Tensor, x1_scale: Tensor, x1_name: str, x2_name: str
) -> Tensor:
    """Add the product of x1 (m, k) and x2 (k, n) to ``summed`` in place."""
    if x1_scale.dim() > 1:
        x1_scale, x2_scale = x1_scale.view(torch.uint8), x2_scale.view(torch.uint8)
    operands = carried(x1, x1_name), carried(x2, x2_name)
    return summed.add_(scaled_narrow_product(*operands, x2_scale, x1_scale, None, torch.float32))


@kernel(
    "QuantBatchMatmulInplaceAdd",
    flops=CONTRACTION,
    exact=True,
    may_alias=True,
    idle=("group_size",),
    chips=(ASCEND_950,),
)
def quant_batch_matmul_inplace_add(
    x1: Tensor,
    x2: Tensor,
    x2_scale: Tensor,
    y: Tensor,
    x1_scale: Tensor | None = None,
    *,
    transpose_x1: bool = False,
    transpose_x2: bool = False,
) -> Tensor:
    """Compute the node; scales of blocks are transposed as their operands are."""
    if x1_scale is None:
        raise UndescribedError("QuantBatchMatmulInplaceAdd: a node without x1_scale is not described")
    is_mx = x1_scale.dim() > 1
    if is_mx:
        x1_scale = x1_scale.transpose(0, 1) if transpose_x1 else x1_scale
        x2_scale = x2_scale.transpose(0, 1) if transpose_x2 else x2_scale
        x1_scale, x2_scale = x1_scale.view(torch.uint8), x2_scale.view(torch.uint8)
    one, other = x1.mT if transpose_x1 else x1, x2.mT if transpose_x2 else x2
    return y.add_(scaled_narrow_product(one, other, x2_scale, x1_scale, None, torch.float32))

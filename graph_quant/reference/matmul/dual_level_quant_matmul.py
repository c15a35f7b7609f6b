"""npu_dual_level_quant_matmul on Ascend 950: a product of float4 with scales of blocks of 32 and of groups of 512.

The result starts as the bias, or zero, in float32. Each group of 512 of k adds ``acc * (x1_level0 * x2_level0)`` to it
with one rounding, where ``acc`` is the MX product of the group in float32. The result is rounded once, to its dtype.
"""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.ge import CONTRACTION, from_attr, kernel
from graph_quant.narrow_floats import E2M1
from graph_quant.reference.matmul.narrow_products import carried, multiply_mx
from graph_quant.reference.opaque import opaque
from graph_quant.refusals import UndescribedError
from torch import Tensor

LEVEL0, LEVEL1, PAIR = 512, 32, 64


def dual_level_quant_matmul(
    x1: Tensor,
    x2: Tensor,
    x1_level0_scale: Tensor,
    x2_level0_scale: Tensor,
    x1_level1_scale: Tensor,
    x2_level1_scale: Tensor,
    bias: Tensor | None,
    output: torch.dtype,
) -> Tensor:
    """The product of x1 (m, k/2) and x2 (n, k/2), two float4 to a byte."""
    one, other = carried(x1, E2M1.name), carried(x2, E2M1.name)
    codes = x1_level1_scale.view(torch.uint8), x2_level1_scale.view(torch.uint8)
    return two_level_product(one, other, x1_level0_scale, x2_level0_scale, *codes, bias, output)


def _infer(x1: Tensor, x2: Tensor, *arguments: object) -> Tensor:
    return x1.new_empty((x1.size(0), x2.size(0)), dtype=arguments[-1])  # type: ignore[call-overload,no-any-return]


@opaque(_infer)
def two_level_product(
    x1: Tensor,
    x2: Tensor,
    x1_level0_scale: Tensor,
    x2_level0_scale: Tensor,
    x1_level1_scale: Tensor,
    x2_level1_scale: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
) -> Tensor:
    """The product of operands as a graph carries them; x2 is (n, k)."""
    rows, columns = x1.size(0), x2.size(0)
    total = torch.zeros(rows, columns) if bias is None else bias.expand(rows, columns)
    for group, start in enumerate(range(0, x1.size(1), LEVEL0)):
        depth, pairs = slice(start, start + LEVEL0), slice(start // PAIR, (start + LEVEL0) // PAIR)
        product = multiply_mx(
            x1[:, depth], x2[:, depth].mT, x1_level1_scale[:, pairs], x2_level1_scale[:, pairs].transpose(0, 1)
        )
        scale = x1_level0_scale[:, group, None] * x2_level0_scale[group]
        # A fused multiply and add: one rounding.
        total = (product.double() * scale.double() + total.double()).float()
    return total.to(dtype)


@kernel("DualLevelQuantBatchMatmul", flops=CONTRACTION, exact=True, chips=(ASCEND_950,))
def dual_level_quant_matmul_node(
    x1: Tensor,
    x2: Tensor,
    x1_level0_scale: Tensor,
    x1_level1_scale: Tensor,
    x2_level0_scale: Tensor,
    x2_level1_scale: Tensor,
    bias: Tensor | None = None,
    *,
    dtype: int = 1,
    transpose_x1: bool = False,
    transpose_x2: bool = True,
    level0_group_size: int = LEVEL0,
    level1_group_size: int = LEVEL1,
) -> Tensor:
    """Compute the node for the attributes that Ascend 950 supports."""
    if transpose_x1 or not transpose_x2 or (level0_group_size, level1_group_size) != (LEVEL0, LEVEL1):
        raise UndescribedError("DualLevelQuantBatchMatmul: other orders and group sizes are not described")
    codes = x1_level1_scale.view(torch.uint8), x2_level1_scale.view(torch.uint8)
    return two_level_product(x1, x2, x1_level0_scale, x2_level0_scale, *codes, bias, from_attr(dtype))

"""npu_all_to_all_matmul and npu_matmul_all_to_all: rows of ranks become columns before a product, or back after it.

Products are of halves, summed in float32 with the bias, and rounded once.
"""

from __future__ import annotations

from graph_quant.reference.collective.exchange import group_all_to_all
from graph_quant.reference.collective.products import float_product
from torch import Tensor


def all_to_all_matmul(
    x1: Tensor, x2: Tensor, hcom: str, world_size: int, bias: Tensor | None, all2all_out_flag: bool
) -> tuple[Tensor, Tensor | None]:
    """The product of this rank's rows of all ranks, and these rows."""
    rows = x1.size(0) // world_size
    came = group_all_to_all(x1, [rows] * world_size, [rows] * world_size, hcom)
    turned = came.view(world_size, rows, x1.size(1)).transpose(0, 1).reshape(rows, world_size * x1.size(1))
    return float_product(turned, x2, bias), turned if all2all_out_flag else None


def matmul_all_to_all(x1: Tensor, x2: Tensor, hcom: str, world_size: int, bias: Tensor | None) -> Tensor:
    """Of the products of all ranks, the columns of this one."""
    columns = x2.size(1) // world_size
    product = float_product(x1, x2, bias).view(x1.size(0), world_size, columns)
    sent = product.transpose(0, 1).reshape(world_size * x1.size(0), columns)
    return group_all_to_all(sent, [x1.size(0)] * world_size, [x1.size(0)] * world_size, hcom)

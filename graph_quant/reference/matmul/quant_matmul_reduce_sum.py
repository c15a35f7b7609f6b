"""npu_quant_matmul_reduce_sum: products of int8 matrices, rescaled, and added over the batch.

Each product is int32, multiplied in float32 by x2_scale, then by x1_scale, and rounded to bfloat16. These are added in
bfloat16, each sum rounded, here in the order of the batch. The device adds them as its cores finish, unless it runs in
deterministic mode.
"""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.ge import CONTRACTION, Sizes, kernel
from graph_quant.reference.matmul.int8_matmul import int8_matmul
from torch import Tensor

_BFLOAT16 = 27


def quant_matmul_reduce_sum(x1: Tensor, x2: Tensor, x1_scale: Tensor, x2_scale: Tensor) -> Tensor:
    """The sum over the first dimension."""
    values = int8_matmul(x1, x2).float() * x2_scale.float() * x1_scale.unsqueeze(-1)
    total, *others = values.bfloat16().unbind(0)
    for product in others:
        total = total + product
    return total.contiguous()


@kernel("QuantMatmulReduceSum", flops=CONTRACTION, exact=True)
def quant_matmul_reduce_sum_node(
    x1: Tensor,
    x2: Tensor,
    dims: Sizes,
    bias: Tensor | None = None,
    x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None,
    y_scale: Tensor | None = None,
    x1_offset: Tensor | None = None,
    x2_offset: Tensor | None = None,
    y_offset: Tensor | None = None,
    x2_table: Tensor | None = None,
    *,
    dtype: int = _BFLOAT16,
    compute_type: int = -1,  # noqa: ARG001 (how, not what)
    transpose_x1: bool = False,
    transpose_x2: bool = False,
    group_size: int = -1,
    keep_dims: bool = False,
) -> Tensor:
    """Compute the node for the inputs and attributes that its kernel supports."""
    others: Sequence[Tensor | None] = (bias, y_scale, x1_offset, x2_offset, y_offset, x2_table)
    plain = dtype == _BFLOAT16 and list(dims.ints) == [0] and not (transpose_x1 or transpose_x2 or keep_dims)
    if not plain or group_size > 0 or any(x is not None for x in others) or x1_scale is None or x2_scale is None:
        raise NotImplementedError(
            "QuantMatmulReduceSum: only scaled sums of bfloat16 over the batch have a host kernel"
        )
    return quant_matmul_reduce_sum(x1, x2, x1_scale, x2_scale)

"""npu_transpose_batchmatmul: a batched matrix product with permuted dimensions.

Products are summed in float32 and rounded once: to the operands' dtype, or to int8 by a packed parameter for each
batch and column. The device's order of summation depends on sizes and cores.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant import quant_params
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.half_products import multiply
from graph_quant.reference.matmul.requantise import requantise
from torch import Tensor


def transpose_batchmatmul(
    x1: Tensor, x2: Tensor, scale: Tensor | None, x1_order: Sequence[int], x2_order: Sequence[int], parts: int = 1
) -> Tensor:
    """``x1`` times ``x2``, both permuted first: (rows, batches, columns), or the batches split into several parts."""
    batches = multiply(x1.permute(tuple(x1_order)), x2.permute(tuple(x2_order)))
    values = batches.transpose(0, 1).clone(memory_format=torch.contiguous_format)
    if scale is not None:
        return requantise(values.flatten(1), quant_params.signed(scale)).unsqueeze(1)
    if parts > 1:
        split = values.reshape(values.size(0), parts, -1).transpose(0, 1)
        values = split.clone(memory_format=torch.contiguous_format)
    return values.to(x1.dtype)


@kernel("TransposeBatchMatMul", flops=CONTRACTION, exact=True)
def transpose_batchmatmul_node(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    *,
    perm_x1: Sequence[int] = (),
    perm_x2: Sequence[int] = (),
    perm_y: Sequence[int] = (),
    enable_hf32: bool = False,
    batch_split_factor: int = 1,
) -> Tensor:
    """Compute the node for the attributes that A2 and A3 support."""
    if bias is not None or tuple(perm_y) != (1, 0, 2):
        raise NotImplementedError("TransposeBatchMatMul: a bias, or perm_y but [1, 0, 2], has no host kernel")
    if enable_hf32 and x1.dtype == torch.float32:
        raise NotImplementedError("TransposeBatchMatMul: enable_hf32=True has no host kernel for float32")
    return transpose_batchmatmul(x1, x2, scale, perm_x1 or (0, 1, 2), perm_x2 or (0, 1, 2), batch_split_factor)

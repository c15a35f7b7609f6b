"""npu_transpose_quant_batchmatmul on Ascend 950: a batched product of float8 or HiFloat8 with the rows first.

======== =================================================================================================
form     result of each batch, every step rounded to float32
======== =================================================================================================
float8   ``x1 @ x2 * x2_scale * x1_scale``, a scale for each column and for each row
mx       ``(x1 * x1_scale) @ (x2 * x2_scale)``, a scale for every 32 of k
HiFloat8 ``x1 @ x2`` times the 19 bits of a packed scale for each column
======== =================================================================================================

Products are accumulated in float32; the result is rounded once, to its dtype.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant import quant_params
from graph_quant.chip import ASCEND_950
from graph_quant.ge import CONTRACTION, from_attr, kernel
from graph_quant.reference.matmul.narrow_products import carried, multiply_mx, multiply_narrow
from graph_quant.reference.opaque import opaque
from graph_quant.refusals import UndescribedError
from torch import Tensor

ROWS_FIRST, STRAIGHT, DEPTH_LAST = (1, 0, 2), (0, 1, 2), (0, 2, 1)


def transpose_quant_batchmatmul(
    x1: Tensor,
    x2: Tensor,
    x1_scale: Tensor | None,
    x2_scale: Tensor,
    x1_name: str,
    x2_name: str,
    is_transposed: bool,
    output: torch.dtype,
) -> Tensor:
    """The product of x1 (m, b, k) and x2, (b, k, n) or (b, n, k) where it ``is_transposed``."""
    one, other = carried(x1, x1_name), carried(x2, x2_name)
    tokens, scale = _as_bytes(x1_scale), _as_bytes(x2_scale)
    assert scale is not None
    return rows_of_batches(one, other, tokens, scale, is_transposed, output)


def _as_bytes(scale: Tensor | None) -> Tensor | None:
    is_codes = scale is not None and scale.dtype == torch.float8_e8m0fnu
    return scale.view(torch.uint8) if scale is not None and is_codes else scale


def _infer(
    x1: Tensor,
    x2: Tensor,
    _x1_scale: Tensor | None,
    _x2_scale: Tensor,
    is_transposed: bool,
    dtype: torch.dtype,
) -> Tensor:
    return x1.new_empty((x1.size(0), x1.size(1), x2.size(1 if is_transposed else 2)), dtype=dtype)


@opaque(_infer)
def rows_of_batches(
    x1: Tensor, x2: Tensor, x1_scale: Tensor | None, x2_scale: Tensor, is_transposed: bool, dtype: torch.dtype
) -> Tensor:
    """The product of operands as a graph carries them; scales of MX are bytes."""
    one, other = x1.transpose(0, 1), x2.mT if is_transposed else x2
    if x1_scale is not None and x1_scale.dim() > 1:
        values = multiply_mx(
            one, other, x1_scale.transpose(0, 1), x2_scale.transpose(1, 2) if is_transposed else x2_scale
        )
    elif x1_scale is None:
        values = multiply_narrow(one, other) * quant_params.decode(quant_params.signed(x2_scale))[0]
    else:
        values = multiply_narrow(one, other) * x2_scale * x1_scale.unsqueeze(-1)
    return values.to(dtype).transpose(0, 1).clone(memory_format=torch.contiguous_format)


@kernel("TransposeQuantBatchMatMul", flops=CONTRACTION, exact=True, idle=("group_size",), chips=(ASCEND_950,))
def transpose_quant_batchmatmul_node(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None = None,
    x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None,
    *,
    dtype: int = 1,
    perm_x1: Sequence[int] = ROWS_FIRST,
    perm_x2: Sequence[int] = STRAIGHT,
    perm_y: Sequence[int] = ROWS_FIRST,
    batch_split_factor: int = 1,
) -> Tensor:
    """Compute the node for the attributes that Ascend 950 supports."""
    orders = tuple(perm_x1), tuple(perm_y), batch_split_factor
    if bias is not None or x2_scale is None or orders != (ROWS_FIRST, ROWS_FIRST, 1):
        raise UndescribedError("TransposeQuantBatchMatMul: a bias, other permutations or a split are not described")
    is_transposed = tuple(perm_x2) == DEPTH_LAST
    tokens, scale = _as_bytes(x1_scale), _as_bytes(x2_scale)
    assert scale is not None
    return rows_of_batches(x1, x2, tokens, scale, is_transposed, from_attr(dtype))

"""npu_quant_matmul with a scale for each group of k: QuantBatchMatmulV4 on A2 and A3.

====== ==========================================================================================================
form   result, every step rounded to float32
====== ==========================================================================================================
a4w4   for each 256 of k ``(acc - sum(x1) * offset) * scale``, added up in that order; ``* pertoken_scale``
a8w4   x1 as ``16 * high + low + 8``, both halves int4: for each 256 of k, or all of it, ``float16(acc * scale)``,
       added in float16; ``(16 * high + low + offset) * pertoken_scale``
blocks ``bias``, and for each 128 of k ``acc * (pertoken_scale * scale)`` added to it, a scale for every 128 columns
====== ==========================================================================================================

acc is the int32 product ``x1 @ x2`` of one group of k. The documents' formula of a8w4 omits the halves, and with them
that the caller passes the sum of ``8 * x2 * scale`` as ``offset``.
"""

from __future__ import annotations

import torch
from graph_quant import chip, int4
from graph_quant.chip import A2_A3_950
from graph_quant.destination import INT8, element_destination
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.matmul.grouped_products import Weight, split_product
from graph_quant.reference.matmul.int8_matmul import int8_matmul
from graph_quant.reference.matmul.quant_matmul_950 import node_950
from graph_quant.refusals import UndescribedError
from torch import Tensor

WHOLE, A4W4, A8W4, BLOCKS = "whole", "a4w4", "a8w4", "blocks"


def a4w4(x1: Tensor, x2: Tensor, scale: Tensor, offset: Tensor, pertoken_scale: Tensor) -> Tensor:
    """int4 times int4, unpacked. ``scale`` and ``offset`` are (groups, n)."""
    total = torch.zeros((x1.size(0), x2.size(1)), dtype=torch.float32, device=x1.device)
    groups = zip(*_split_k(x1, x2, scale.size(0)), scale, offset.float(), strict=True)
    for rows, columns, group_scale, group_offset in groups:
        sums = rows.sum(-1, keepdim=True, dtype=torch.int32).float()
        total = (int8_matmul(rows, columns).float() - sums * group_offset) * group_scale + total
    return total * pertoken_scale


def a8w4(x1: Tensor, x2: Tensor, scale: Tensor, offset: Tensor, pertoken_scale: Tensor) -> Tensor:
    """int8 times int4, whose packed ``scale`` is (n,) or (groups, n)."""
    return split_product(x1, Weight(x2, bias=offset, scale=scale)) * pertoken_scale.reshape(-1, 1)


def blocks(x1: Tensor, x2: Tensor, scale: Tensor, bias: Tensor, pertoken_scale: Tensor) -> Tensor:
    """int8 times int8. ``scale`` is (groups, blocks of columns), ``pertoken_scale`` (m, groups)."""
    total = torch.zeros((x1.size(0), x2.size(1)), dtype=torch.float32, device=x1.device) + bias
    wide = scale.repeat_interleave(x2.size(1) // scale.size(1), 1)
    groups = zip(*_split_k(x1, x2, scale.size(0)), pertoken_scale.mT, wide, strict=True)
    for rows, columns, tokens, group_scale in groups:
        total = int8_matmul(rows, columns).float() * (tokens.unsqueeze(-1) * group_scale) + total
    return total


def _split_k(x1: Tensor, x2: Tensor, groups: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    depth = x1.size(1) // groups
    return x1.split(depth, 1), x2.split(depth, 0)


def grouped(
    form: str,
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    pertoken_scale: Tensor | None,
    bias: Tensor | None,
    dtype: torch.dtype,
) -> Tensor:
    """The product of a form other than WHOLE; int4 is packed in int32, x2 of a4w4 along k."""
    assert pertoken_scale is not None
    if form == BLOCKS:
        assert bias is not None
        return blocks(x1, x2, scale, bias, pertoken_scale).to(dtype)
    assert offset is not None
    if form == A8W4:
        return a8w4(x1, x2, scale, offset, pertoken_scale).to(dtype)
    if x1.dtype == torch.int32:
        x1, x2 = int4.unpack(x1), int4.unpack(x2.mT).mT
    return a4w4(x1, x2, scale, offset, pertoken_scale).to(dtype)


@kernel("QuantBatchMatmulV4", flops=CONTRACTION, idle=("group_size", "compute_type"), chips=A2_A3_950)
def quant_batch_matmul_v4(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None = None,
    x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None,
    y_scale: Tensor | None = None,
    x1_offset: Tensor | None = None,
    x2_offset: Tensor | None = None,
    y_offset: Tensor | None = None,
    x2_table: Tensor | None = None,
    *,
    dtype: int,
    transpose_x1: bool = False,
    transpose_x2: bool = False,
) -> Tensor:
    if chip.is_950():
        # An offset of int8 results is in the packed scale as well.
        unused = x2_offset if element_destination(dtype) is not INT8 else None
        if x2_scale is None or any(tensor is not None for tensor in (y_scale, x1_offset, unused, y_offset, x2_table)):
            raise UndescribedError("QuantBatchMatmulV4: this form is not described for Ascend 950 yet")
        return node_950(x1, x2, x2_scale, x1_scale, bias, dtype, transpose_x1, transpose_x2)
    if x2_scale is None or x1_scale is None or any(tensor is not None for tensor in (y_scale, x1_offset, x2_table)):
        raise NotImplementedError(
            "QuantBatchMatmulV4: this form is of Ascend 950; A2 and A3 take x1_scale and x2_scale"
        )
    form = A8W4 if y_offset is not None else (A4W4 if x2_offset is not None else BLOCKS)
    return grouped(
        form,
        x1.mT if transpose_x1 else x1,
        x2.mT if transpose_x2 else x2,
        x2_scale.mT
        if form == BLOCKS and transpose_x2
        else (x2_scale.view(torch.int64) if x2_scale.dtype == torch.uint64 else x2_scale),
        x2_offset if y_offset is None else y_offset,
        x1_scale,
        bias,
        element_destination(dtype).storage,
    )

"""npu_quant_matmul: an integer matrix product, rescaled to the output type.

``acc = x1 @ x2`` in int32, plus an int32 bias. Then, by output:

* int32 is acc itself;
* float16 without per-token scales, and int8, read a packed parameter: its 19-bit scale, and for int8 its
  9-bit offset. int8 saturates twice, to 9 bits before the offset is added and to 8 after;
* bfloat16, and float16 with per-token scales, multiply by a float scale, then by the token's, add a float
  bias, and round once at the end.

Scales for groups of k are in ``quant_matmul_groups``, and what Ascend 950 does in ``quant_matmul_950``.
"""

from __future__ import annotations

import torch
from graph_quant import chip, int4, quant_params
from graph_quant.chip import A2_A3_950
from graph_quant.destination import BFLOAT16, FLOAT16, INT8, INT32, Destination, element_destination
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.matmul.int8_matmul import int8_matmul
from graph_quant.reference.matmul.int8_matmul_dequant import dequantise, int8_matmul_dequant
from graph_quant.reference.matmul.quant_matmul_950 import NarrowForm, node_950, quant_matmul_950
from graph_quant.reference.matmul.quant_matmul_groups import WHOLE, grouped
from graph_quant.reference.matmul.requantise import requantise


def quant_matmul(
    x1: torch.Tensor,
    x2: torch.Tensor,
    scale: torch.Tensor,
    *,
    offset: torch.Tensor | None = None,
    pertoken_scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    output: Destination = INT8,
    packed_along_k: bool = False,
    form: str = WHOLE,
    narrow: NarrowForm | None = None,
) -> torch.Tensor:
    """The product. int4 operands are packed in int32; with ``packed_along_k`` x2 is (k/8, n), else (k, n/8).

    ``narrow`` is the form of a call on Ascend 950.
    """
    if narrow is not None:
        return quant_matmul_950(narrow, x1, x2, scale, offset, pertoken_scale, bias, output.storage)
    if form != WHOLE:
        return grouped(form, x1, x2, scale, offset, pertoken_scale, bias, output.storage)
    takes_floats = output is BFLOAT16 or (output is FLOAT16 and pertoken_scale is not None)
    if takes_floats and x1.dtype == torch.int8 and (bias is None or bias.dtype != torch.int32):
        return int8_matmul_dequant(x1, x2, scale, pertoken_scale, bias, output.storage)
    accumulator, bias = accumulated(x1, x2, bias, packed_along_k)
    if output is INT32:
        return accumulator
    if takes_floats:
        return dequantise(accumulator, scale, pertoken_scale, bias).to(output.storage)
    params = scale if scale.dtype == torch.int64 else quant_params.encode(scale, offset)
    params = params.reshape(-1)
    if output is FLOAT16:
        return (accumulator.float() * quant_params.decode(params)[0]).to(torch.float16)
    return requantise(accumulator, params)


def accumulated(
    x1: torch.Tensor, x2: torch.Tensor, bias: torch.Tensor | None, packed_along_k: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The integer product with an int32 bias, and a float bias that is added later."""
    if x1.dtype == torch.int32:
        x1 = int4.unpack(x1)
        x2 = int4.unpack(x2.mT).mT if packed_along_k else int4.unpack(x2)
    accumulator = int8_matmul(x1, x2)
    if bias is None or bias.dtype != torch.int32:
        return accumulator, bias
    return accumulator + bias, None


@kernel("QuantBatchMatmulV3", flops=CONTRACTION, exact=True, idle=("group_size",), chips=A2_A3_950)
def quant_batch_matmul(
    x1: torch.Tensor,
    x2: torch.Tensor,
    scale: torch.Tensor,
    offset: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    pertoken_scale: torch.Tensor | None = None,
    *,
    dtype: int,
    transpose_x1: bool = False,
    transpose_x2: bool = False,
) -> torch.Tensor:
    if chip.is_950():
        return node_950(x1, x2, scale, pertoken_scale, bias, dtype, transpose_x1, transpose_x2)
    return quant_matmul(
        x1.mT if transpose_x1 else x1,
        x2.mT if transpose_x2 else x2,
        quant_params.signed(scale),
        offset=offset,
        pertoken_scale=pertoken_scale,
        bias=bias,
        output=element_destination(dtype),
    )

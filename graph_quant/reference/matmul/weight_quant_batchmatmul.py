"""npu_weight_quant_batchmatmul: floating rows times integer weights, ``x @ ((weight + offset) * scale) + bias``.

float16 rounds the dequantised weights after each of the two operations, bfloat16 once, after both. A packed scale
multiplies ``weight + offset``, an integer, in float32, and rounds once to float16. Products are summed in float32, the
bias is added there, and the result is rounded once: to x's dtype, or to int8 by a packed parameter.

How the device splits k, and so the order of summation, depends on sizes and cores; for few rows it also splits x into
integers. Results differ by the rounding of float32 sums, at most one unit in the last place of their dtype.
What Ascend 950 computes is in ``weight_quant_950``.
"""

from __future__ import annotations

import torch
from graph_quant import chip, int4, quant_params
from graph_quant.chip import A2_A3_950
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.narrow_floats import E2M1, E4M3
from graph_quant.reference.checks import value_check
from graph_quant.reference.half_products import multiply
from graph_quant.reference.matmul.narrow_products import HIFLOAT8
from graph_quant.reference.matmul.requantise import requantise
from graph_quant.reference.matmul.weight_quant_950 import weight_quant_batchmatmul_950
from graph_quant.refusals import Refusal
from torch import Tensor

_OFFSET_LOW, _OFFSET_HIGH = -128, 127
# GE's names of what a weight of a node holds, by how it is carried.
_NAMES_950 = {
    torch.int8: "int8",
    torch.int32: "int4",
    torch.float32: E2M1.name,
    torch.float8_e4m3fn: E4M3.name,
    torch.uint8: HIFLOAT8,
}


def weight_quant_batchmatmul(
    x: Tensor,
    weight: Tensor,
    antiquant_scale: Tensor,
    antiquant_offset: Tensor | None = None,
    quant_scale: Tensor | None = None,
    quant_offset: Tensor | None = None,
    bias: Tensor | None = None,
    antiquant_group_size: int = 0,
    packed_along_k: bool = False,
    narrow: str | None = None,
) -> Tensor:
    """The product. int32 weights hold int4: (k, n/8), or with ``packed_along_k`` (k/8, n).

    ``narrow`` is GE's name of the weight's dtype in a call on Ascend 950.
    """
    if narrow is not None:
        parameters = antiquant_scale, antiquant_offset, bias, antiquant_group_size, packed_along_k
        return weight_quant_batchmatmul_950(narrow, x, weight, *parameters)
    if weight.dtype == torch.int32:
        weight = int4.unpack(weight.mT).mT if packed_along_k else int4.unpack(weight)
    dequantised = _dequantised(weight, antiquant_scale, antiquant_offset, x.dtype, antiquant_group_size)
    values = multiply(x, dequantised, bias, x.dtype if quant_scale is None else torch.float32)
    if quant_scale is None:
        return values
    packed = quant_scale.dtype == torch.int64
    params = quant_scale if packed else quant_params.encode(quant_scale, quant_offset)
    return requantise(values, params.reshape(-1))


def _dequantised(integers: Tensor, scale: Tensor, offset: Tensor | None, dtype: torch.dtype, group_size: int) -> Tensor:
    """The integers of a weight, dequantised."""
    if scale.dtype == torch.int64:
        whole = integers.to(torch.int32)
        if offset is not None:
            whole = whole + int8_offsets("npu_weight_quant_batchmatmul", offset)
        return (whole.float() * quant_params.decode(scale)[0]).to(torch.float16)
    between = dtype if dtype == torch.float16 else torch.float32
    values = integers.to(between)
    if offset is not None:
        values = values + _of_rows(offset, values.size(0), group_size).to(between)
    return (values * _of_rows(scale, values.size(0), group_size).to(between)).to(dtype)


def _of_rows(parameters: Tensor, rows: int, group_size: int) -> Tensor:
    """The parameters of each row: repeated for the rows of a group; the last group may be shorter."""
    return parameters.repeat_interleave(group_size, 0)[:rows] if group_size else parameters


@value_check
def int8_offsets(op: str, antiquant_offset: Tensor) -> Tensor:
    """``antiquant_offset``, refused where a value is outside the range of int8."""
    outside = ((antiquant_offset < _OFFSET_LOW) | (antiquant_offset > _OFFSET_HIGH)).flatten().nonzero()
    if outside.numel():
        column = int(outside[0])
        value = int(antiquant_offset.flatten()[column])
        raise Refusal(
            f"{op}: antiquant_offset of column {column} must be from {_OFFSET_LOW} to {_OFFSET_HIGH}, got {value}"
        )
    return antiquant_offset


@kernel("WeightQuantBatchMatmulV2", flops=CONTRACTION, exact=True, chips=A2_A3_950)
def weight_quant_batchmatmul_node(
    x: Tensor,
    weight: Tensor,
    antiquant_scale: Tensor,
    antiquant_offset: Tensor | None = None,
    quant_scale: Tensor | None = None,
    quant_offset: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    transpose_x: bool = False,
    transpose_weight: bool = False,
    antiquant_group_size: int = 0,
    dtype: int = -1,  # noqa: ARG001 (x and quant_scale determine it)
    inner_precise: int = 0,  # noqa: ARG001 (how fast, not what)
) -> Tensor:
    """Compute the node. With transpose_weight the weight is (n, k), and n is the first dimension of its parameters."""
    x = x.mT if transpose_x else x
    is_packed = weight.dtype in (torch.int32, torch.float32)
    along_k = is_packed and (transpose_weight or weight.size(0) != x.size(1))
    if transpose_weight:
        weight, antiquant_scale = weight.mT, _transposed(antiquant_scale)
        antiquant_offset = None if antiquant_offset is None else _transposed(antiquant_offset)
    return weight_quant_batchmatmul(
        x,
        weight,
        quant_params.signed(antiquant_scale),
        antiquant_offset,
        None if quant_scale is None else quant_params.signed(quant_scale),
        quant_offset,
        bias,
        antiquant_group_size,
        along_k,
        _NAMES_950[weight.dtype] if chip.is_950() else None,
    )


def _transposed(parameters: Tensor) -> Tensor:
    return parameters.mT if parameters.dim() == 2 else parameters

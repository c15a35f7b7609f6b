"""npu_quant_matmul becomes QuantBatchMatmulV3.

A float scale that the kernel expects packed goes through TransQuantParamV2 first, as in eager mode; one that
npu_trans_quant_param packed in the graph is passed as UINT64. int4 operands arrive as int32 and are unpacked by Bitcast
and Reshape. x2 packed along k is transposed, so that its packed dimension is the last, and multiplied with
transpose_x2; so is the int8 matrix that x2 is a transposed view of. Scales for groups of k need QuantBatchMatmulV4,
whose packed scales are UINT64 and whose weights are transposed, except int4 weights of int8 rows.

On Ascend 950 it becomes QuantBatchMatmulV4 for every form, as TorchAir has it: GE's own passes turn that into the node
of the form's kernel, and merge Transposes. Bytes become their dtype by a Bitcast, float4 with a Reshape behind it;
between two Transposes where float4 are packed along another dimension than the last one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import torch
from graph_quant.converters.lowering import PROTO_UINT64, constant_of, lowers, producer, swapped_last_two, unpacked
from graph_quant.converters.narrow import E8M0, viewed_as
from graph_quant.converters.quant import trans_quant_param
from graph_quant.meta.matmul.quant_matmul import QuantMatmulPlan
from graph_quant.reference.matmul.quant_matmul_950 import NarrowForm
from graph_quant.reference.matmul.quant_matmul_groups import A4W4, A8W4, BLOCKS, WHOLE
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

# The order [1, 0] of two dimensions, as constants of int64 and int32 hold it.
_SWAPPED = (struct.pack("<2q", 1, 0), struct.pack("<2i", 1, 0))


@lowers("npu_quant_matmul")
def lower(
    plan: QuantMatmulPlan,
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    pertoken_scale: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    """The GE nodes of one call."""
    if plan.narrow is not None:
        return _on_950(plan, plan.narrow, x1, x2, scale, offset, pertoken_scale, bias)
    if plan.form != WHOLE:
        return _grouped(plan, x1, x2, scale, offset, pertoken_scale, bias)
    is_row = scale.meta.dim() == 2
    scale = trans_quant_param.quant_params(scale, offset) if plan.packs_scale else as_packed(scale)
    if is_row:
        dtype = scale.desc.dtype
        scale = ge.Reshape(scale, [-1])
        scale.desc.dtype = dtype
    source = _source_of_view(x2)
    x1, x2 = operands(x1, x2, plan.int4, plan.packed_along_k) if source is None else (x1, source)
    y = ge.QuantBatchMatmulV3(
        x1,
        x2,
        scale,
        offset,
        bias,
        pertoken_scale,
        dtype=plan.output.ge_attr,
        transpose_x1=False,
        transpose_x2=plan.packed_along_k or source is not None,
    )
    y.desc.dtype = plan.output.ge_desc
    return y


def _on_950(
    plan: QuantMatmulPlan,
    form: NarrowForm,
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    pertoken_scale: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    if form.x1 == "int4":
        x1, x2 = unpacked(x1, x1.rank), elements_of(x2, form.x2_along_k, unpacked)
    elif form.x1 != "int8":
        x1 = elements_of(x1, form.x1_along_m, lambda y, rank: viewed_as(y, form.x1, rank))
        x2 = elements_of(x2, form.x2_along_k, lambda y, rank: viewed_as(y, form.x2, rank))
    if form.is_mx:
        assert pertoken_scale is not None
        scale, pertoken_scale = (viewed_as(codes, E8M0, codes.rank) for codes in (scale, pertoken_scale))
    elif form.packs_scale:
        scale = trans_quant_param.quant_params(scale, offset)
    else:
        scale = packed_scale(scale)
    y = ge.QuantBatchMatmulV4(
        x1,
        x2,
        bias,
        pertoken_scale,
        scale,
        None,
        None,
        offset,
        None,
        None,
        dtype=plan.output.ge_attr,
        transpose_x1=False,
        transpose_x2=False,
        group_size=plan.group_size,
    )
    y.desc.dtype = plan.output.ge_desc
    return y


def elements_of(x: Tensor, is_along_rows: bool, unpack: Callable[[Tensor, int], Tensor]) -> Tensor:
    """The elements of an operand, which may be packed along its last dimension but one."""
    rank = x.rank
    if not is_along_rows:
        return unpack(x, rank)
    source = producer(x) if rank == 2 and x.node.type == "Transpose" else None
    elements = unpack(swapped_last_two(x, rank) if source is None else source, rank)
    return swapped_last_two(elements, rank)


def _source_of_view(x2: Tensor) -> Tensor | None:
    """The int8 matrix that ``x2`` is a transposed view of."""
    if x2.node.type != "Transpose" or x2.meta.dtype != torch.int8 or x2.rank != 2:
        return None
    return producer(x2) if constant_of(x2, 1) in _SWAPPED else None


def operands(x1: Tensor, x2: Tensor, int4: bool, packed_along_k: bool) -> tuple[Tensor, Tensor]:
    """Both matrices, int4 unpacked; a weight packed along k is transposed for that."""
    if not int4:
        return x1, x2
    if packed_along_k:
        x2 = _transposed(x2)
    return unpacked(x1, x1.rank), unpacked(x2, rank=2)


def _grouped(
    plan: QuantMatmulPlan,
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    pertoken_scale: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    if plan.form == BLOCKS:
        x2, scale = _transposed(x2), _transposed(scale)
    elif plan.form == A4W4:
        x1, x2 = unpacked(x1, rank=2), unpacked(_transposed(x2), rank=2)
    else:
        x2, scale = unpacked(x2, rank=2), packed_scale(scale)
    y = ge.QuantBatchMatmulV4(
        x1,
        x2,
        bias,
        pertoken_scale,
        scale,
        None,
        None,
        offset if plan.form == A4W4 else None,
        offset if plan.form == A8W4 else None,
        None,
        dtype=plan.output.ge_attr,
        transpose_x1=False,
        transpose_x2=plan.form != A8W4,
        group_size=plan.group_size,
    )
    y.desc.dtype = plan.output.ge_desc
    return y


def _transposed(x: Tensor) -> Tensor:
    """``x`` transposed, or its source where it is a transposed view itself."""
    source = producer(x) if x.node.type == "Transpose" else None
    return swapped_last_two(x, rank=2) if source is None else source


def packed_scale(scale: Tensor) -> Tensor:
    """Packed parameters as UINT64, which nodes with groups of k expect."""
    if scale.meta.dtype != torch.int64:
        return scale
    scale = as_packed(scale)
    if scale.desc.dtype == PROTO_UINT64:
        return scale
    bits = ge.Bitcast(scale, type=DataType.DT_UINT64)
    bits.desc.dtype = PROTO_UINT64
    return bits


def as_packed(scale: Tensor) -> Tensor:
    """``scale`` as TransQuantParamV2 gave it, without the Bitcast that hides its UINT64 from torch."""
    source = producer(scale) if scale.node.type == "Bitcast" else scale
    if source is None or source.node.type != trans_quant_param.NODE:
        return scale
    # Torch's view of the result, int64, may have been written into the desc meanwhile.
    source.desc.dtype = PROTO_UINT64
    return source

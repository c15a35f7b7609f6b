"""The quantisation operators. What they compute is in graph_quant.reference; here GE's inputs become its arguments."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from ... import int4
from ...destination import ALL, INT4, Destination
from ...ge.kernels import kernel
from ...ge.torch_dtypes import INT4_ATTR, from_attr
from ...reference.dynamic_quant import dynamic_quant
from ...reference.dynamic_quant_asymmetric import dynamic_quant_asymmetric
from ...reference.group_quant import group_quant
from ...reference.quant_matmul import quant_matmul
from ...reference.quantize import quantize
from ...reference.trans_quant_param import trans_quant_param
from . import opaque

# A GE int4 tensor has one element each; they are packed where the graph says Bitcast.
_INT4_ELEMENTS = dataclasses.replace(INT4, storage=torch.int8, packing=1)


def _destination(number: int) -> Destination:
    if number == INT4_ATTR:
        return _INT4_ELEMENTS
    found = next((each for each in ALL if each.ge_attr == number), None)
    if found is None:
        raise TypeError(f"no destination has the ge::DataType {number}")
    return found


@kernel("GroupQuant")
def group_quant_node(
    x: Tensor, scale: Tensor, group_index: Tensor, offset: Tensor | None = None, *, dst_type: int = 2
) -> Tensor:
    ends = opaque.group_ends("npu_group_quant", group_index, x.size(0), True) if x.numel() else group_index
    return group_quant(x, scale, ends, offset, _destination(dst_type))


@kernel("AscendQuantV2")
def ascend_quant(
    x: Tensor, scale: Tensor, offset: Tensor | None = None, *, dst_type: int = 2, axis: int = -1
) -> Tensor:
    """``scale`` is one element, one for each position of ``axis``, or shaped to broadcast."""
    along = -2 if axis == -2 or (axis >= 0 and axis == x.dim() - 2) else -1
    flat = None if offset is None else offset.reshape(-1)
    return quantize(x, scale.reshape(-1), flat, along, _destination(dst_type))


_TORCH_NAMES = {
    "torch.qint8": 2,
    "torch.quint8": 4,
    "torch.qint32": 3,
    "torch.int8": 2,
    "torch.uint8": 4,
    "torch.int32": 3,
}


@kernel("Quantize")
def quantize_node(x: Tensor, scales: Tensor, zero_points: Tensor | None = None, *, dtype: str, axis: int = 1) -> Tensor:
    return quantize(x, scales, zero_points, axis, _destination(_TORCH_NAMES[dtype]), divide=True)


@kernel("DynamicQuant")
def dynamic_quant_node(
    x: Tensor,
    smooth_scales: Tensor | None = None,
    group_index: Tensor | None = None,
    *,
    dst_type: int = 2,
    quant_mode: str = "pertoken",
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor]:
    ends = _checked("npu_dynamic_quant", x, group_index)
    return dynamic_quant(x, smooth_scales, ends, _destination(dst_type), quant_mode, dst_type_max)


@kernel("DynamicQuantV2")
def dynamic_quant_v2_node(
    x: Tensor,
    smooth_scales: Tensor | None = None,
    group_index: Tensor | None = None,
    *,
    dst_type: int = 2,
    quant_mode: str = "pertoken",
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Asymmetric whatever ``is_symmetrical`` says, as the A2/A3 kernel is."""
    ends = _checked("npu_dynamic_quant_asymmetric", x, group_index)
    return dynamic_quant_asymmetric(x, smooth_scales, ends, _destination(dst_type), quant_mode, dst_type_max)


def _checked(op: str, x: Tensor, group_index: Tensor | None) -> Tensor | None:
    if group_index is None or x.numel() == 0:
        return group_index
    return opaque.group_ends(op, group_index, x.numel() // x.size(-1), False)


@kernel("TransQuantParamV2")
def trans_quant_param_node(scale: Tensor, offset: Tensor | None = None, *, round_mode: int = 0) -> Tensor:
    return trans_quant_param(scale, offset, round_mode).view(torch.uint64)


@kernel("QuantBatchMatmulV3")
def quant_batch_matmul(
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Tensor | None = None,
    bias: Tensor | None = None,
    pertoken_scale: Tensor | None = None,
    *,
    dtype: int,
    transpose_x1: bool = False,
    transpose_x2: bool = False,
) -> Tensor:
    return quant_matmul(
        x1.mT if transpose_x1 else x1,
        x2.mT if transpose_x2 else x2,
        scale.view(torch.int64) if scale.dtype == torch.uint64 else scale,
        offset=offset,
        pertoken_scale=pertoken_scale,
        bias=bias,
        output=_destination(dtype),
    )


@kernel("Bitcast")
def bitcast(x: Tensor, *, type: int, keep_dim: bool = False) -> Tensor:  # noqa: A002
    """The same bits as another type; a change of width adds or removes a last dimension, or scales it."""
    if type == INT4_ATTR:
        elements = int4.unpack(x)
        return elements if keep_dim else elements.reshape([*x.shape, INT4.packing])
    dtype = from_attr(type)
    if x.dtype == torch.int8 and dtype == torch.int32 and (keep_dim or x.size(-1) == INT4.packing):
        packed = opaque.pack_int4(x)
        return packed if keep_dim else packed.squeeze(-1)
    if x.element_size() == dtype.itemsize:
        return x.view(dtype)
    if x.element_size() < dtype.itemsize:
        joined = x.contiguous().view(dtype)
        return joined if keep_dim else joined.squeeze(-1)
    parts = x.contiguous().unsqueeze(-1).view(dtype)
    return parts.flatten(-2) if keep_dim else parts

"""npu_weight_quant_batchmatmul on Ascend 950: weights of eight and four bits, restored in x's dtype.

======== =============================================================================================
weight   restored weight, every operation rounded to x's dtype
======== =============================================================================================
integers ``(weight + antiquant_offset) * antiquant_scale``
float8   ``weight * antiquant_scale``, a scale for each column; HiFloat8 likewise
float4   ``weight * antiquant_scale``, a scale of float8_e8m0fnu for every 32 of k; code 0 is the scale zero
         and code 255 infinity, because the kernel shifts codes into the exponent of a bfloat16
======== =============================================================================================

Products are accumulated in float32, the bias is added there, and the sum is rounded once.
"""

from __future__ import annotations

import torch
from graph_quant import int4
from graph_quant.narrow_floats import E2M1, decode, decode_hif8, unpack_pairs
from graph_quant.reference.half_products import multiply
from graph_quant.reference.matmul.narrow_products import BLOCK, HIFLOAT8
from torch import Tensor

# The bits of a bfloat16's fraction, behind which its exponent is.
_FRACTION_BITS = 7
_PACKED = (torch.int32, torch.float32)


def weight_quant_batchmatmul_950(
    name: str,
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    bias: Tensor | None,
    group_size: int,
    packed_along_k: bool,
) -> Tensor:
    """The product with a weight of GE's dtype ``name``; int32 and float32 hold eight int4 or float4."""
    restored = _elements(name, weight, packed_along_k).to(x.dtype)
    depth = restored.size(0)
    if name == E2M1.name:
        restored = restored * _of_groups(as_half(scale, x.dtype), BLOCK, depth)
    else:
        if offset is not None:
            restored = restored + _of_groups(offset.to(x.dtype), group_size, depth)
        restored = restored * _of_groups(scale.to(x.dtype), group_size, depth)
    return multiply(x, restored, bias, x.dtype)


def as_half(codes: Tensor, dtype: torch.dtype) -> Tensor:
    """Codes of float8_e8m0fnu as the kernel converts them: bits of a bfloat16, rounded to ``dtype``."""
    return (codes.view(torch.uint8).to(torch.int16) << _FRACTION_BITS).view(torch.bfloat16).to(dtype)


def _elements(name: str, weight: Tensor, packed_along_k: bool) -> Tensor:
    if weight.dtype not in _PACKED:
        return decode_hif8(weight.view(torch.uint8)) if name == HIFLOAT8 else weight
    rows = weight.mT if packed_along_k else weight
    if weight.dtype == torch.int32:
        elements = int4.unpack(rows)
    else:
        elements = decode(unpack_pairs(rows.contiguous().view(torch.uint8)), E2M1)
    return elements.mT if packed_along_k else elements


def _of_groups(parameters: Tensor, group_size: int, depth: int) -> Tensor:
    return parameters.repeat_interleave(group_size, 0)[:depth] if group_size else parameters

"""npu_anti_mx_quant: the values of MX blocks along the last axis, in float32, float16 or bfloat16.

Conversions to float16 and bfloat16 saturate, and NaN becomes zero there; the products of float4 are bfloat16, whose
overflow is infinite.
"""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.ge import from_attr, kernel, stored_dtype
from graph_quant.narrow_floats import FORMATS, NarrowFloat, decode, unpack_pairs
from graph_quant.reference.quant.mx_blocks import NAN_CODE
from torch import Tensor

_BLOCK = 32


def anti_mx_quant(x: Tensor, mxscale: Tensor, source: NarrowFloat, output: torch.dtype) -> Tensor:
    """Dequantise as npu_anti_mx_quant does.

    Args:
        x: float8, or two float4 to a uint8.
        mxscale: Codes of float8_e8m0fnu in pairs, as float8_e8m0fnu or uint8.
        source: The format of ``x``.
        output: torch.float32, torch.float16 or torch.bfloat16.

    Returns:
        The values, of the shape of ``x`` or twice its width for float4.
    """
    return _dequantise(x if source.dtype is not None else unpack_pairs(x), mxscale, source, output)


def _dequantise(codes: Tensor, mxscale: Tensor, source: NarrowFloat, output: torch.dtype) -> Tensor:
    width = codes.size(-1)
    exponents = mxscale.view(torch.uint8).to(torch.int32)
    # The smallest power of two is a subnormal float32.
    powers = torch.where(exponents > 0, exponents << 23, 1 << 22).view(torch.float32)
    powers = torch.where(exponents == NAN_CODE, torch.nan, powers).flatten(-2)
    values = decode(codes, source) * powers.repeat_interleave(_BLOCK, -1)[..., :width]
    if source.dtype is None:
        values = values.bfloat16()
        return values if output == torch.bfloat16 else _convert(values.float(), output)
    return _convert(values, output)


def _convert(values: Tensor, output: torch.dtype) -> Tensor:
    if output == torch.float32:
        return values
    largest = torch.finfo(output).max
    return torch.where(values == values, values, 0.0).clamp(-largest, largest).to(output)


@kernel("AntiMxQuant", flops=2, chips=(ASCEND_950,))
def anti_mx_quant_node(x: Tensor, mxscale: Tensor, *, axis: int = -1, dst_type: int = 27) -> Tensor:
    if axis not in (-1, x.dim() - 1):
        raise NotImplementedError(f"AntiMxQuant: axis {axis} has no host kernel, only the last one")
    source = next(known for known in FORMATS if stored_dtype(known.name) == x.dtype)
    codes = x if source.dtype is not None else x.view(torch.uint8)
    return _dequantise(codes, mxscale, source, from_attr(dst_type))

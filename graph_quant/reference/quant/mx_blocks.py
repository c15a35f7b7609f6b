"""MX blocks: elements along one axis that share a scale, which is a power of two stored as its biased exponent.

The scale's code is that of float8_e8m0fnu: code c stands for 2**(c - 127), 255 for NaN. Ascend 950's kernels compute it
in one of three ways, by ``scale_alg``:

* 0, OCP: the exponent of the largest magnitude, less the exponent of the format's largest value. If that is not above
  0 the code is 0, and the elements become zeros or, with ``keeps_tiny``, are multiplied by 2**127; subnormal numbers
  become zeros.
* 1, for eight bits: the largest magnitude over the format's largest value, rounded up to a power of two.
* 2, for float4_e2m1: as 0, with the exponent of the magnitude raised where its mantissa is above that of 6 (or of 7,
  with dst_type_max 7); with another dst_type_max as 1, over that number.

A block with an infinity or NaN has the code 255 and becomes zeros; a block of zeros has the code 0.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch
from graph_quant.narrow_floats import RINT, NarrowFloat, decode, encode, pack_pairs
from graph_quant.reference.narrow_casts import encode_in_bytes
from graph_quant.reference.native_blocks import can_encode, encode_blocks, largest_of_blocks
from torch import Tensor
from torch.nn import functional

OCP, ROUND_UP, BY_MANTISSA = 0, 1, 2
NAN_CODE = 255
_EXPONENT, _MANTISSA = 0xFF, 0x7FFFFF
# What carries into the exponent of a bfloat16 whose mantissa is above that of 6 and of 7, by dst_type_max.
_CARRY = {0.0: 0x3F, 6.0: 0x3F, 7.0: 0x1F}


@dataclass(frozen=True)
class MxRule:
    """How blocks are quantised: the arguments of the operators that do so.

    ``keeps_tiny`` is whether a kernel multiplies blocks that are too small for a scale by 2**127.
    """

    target: NarrowFloat
    scale_alg: int = OCP
    round_mode: str = RINT
    block_size: int = 32
    dst_type_max: float = 0.0
    max_low_bound: float = 0.0
    keeps_tiny: bool = False


def quantise_blocks(x: Tensor, axis: int, rule: MxRule) -> tuple[Tensor, Tensor]:
    """The codes of ``x`` in its shape, and the codes of the scales of its blocks along ``axis``.

    Args:
        x: Tensor of float16, bfloat16 or float32.
        axis: The axis that blocks run along; the last block is filled up with zeros.
        rule: How to quantise.

    Returns:
        float8, or a uint8 for each four bits; and uint8 with as many elements along ``axis`` as there are blocks.
    """
    moved = x.movedim(axis, -1)
    length = moved.size(-1)
    if can_encode(x, rule.block_size, rule.round_mode):
        rows = moved.reshape(moved.shape[:-1].numel(), length).contiguous()
        codes, multiplier = scale_blocks(largest_of_blocks(rows), rule, x.dtype)
        y = encode_blocks(rows, multiplier, rule.target, rule.round_mode).view(moved.shape)
        y = y.movedim(-1, axis).contiguous()
        codes = codes.view(*moved.shape[:-1], codes.size(-1)).movedim(-1, axis)
        return y if rule.target.dtype is None else y.view(rule.target.dtype), codes
    blocks = functional.pad(moved, (0, -length % rule.block_size)).unflatten(-1, (-1, rule.block_size))
    codes, multiplier = scale_blocks(blocks.abs().amax(-1).float(), rule, x.dtype)
    values = blocks.float() * multiplier.unsqueeze(-1)
    if torch.compiler.is_compiling() and x.dtype == torch.float32:
        y = encode_in_bytes(values, rule.target.name, rule.round_mode)
    else:
        y = encode(values, rule.target, rule.round_mode).view(torch.uint8)
    y = y.flatten(-2)[..., :length].movedim(-1, axis).contiguous()
    return y if rule.target.dtype is None else y.view(rule.target.dtype), codes.movedim(-1, axis)


def scale_blocks(largest: Tensor, rule: MxRule, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The codes of scales, and what elements are multiplied by, from the largest magnitudes of blocks of ``dtype``."""
    largest = largest.float()
    bits = largest.view(torch.int32)
    invalid = (bits >> 23) == _EXPONENT
    if rule.scale_alg == ROUND_UP or (rule.scale_alg == BY_MANTISSA and rule.dst_type_max not in _CARRY):
        code = _code_rounded_up(largest, rule)
        is_zero = bits == 0
    else:
        code = _code_by_exponent(bits, largest, rule, dtype)
        is_zero = (bits >> 23) == 0 if rule.keeps_tiny else code == 0
    code = torch.where(invalid, NAN_CODE, torch.where(bits == 0, 0, code))
    # 2**(127 - code); the last of these is a subnormal float32.
    power = torch.where(code < 254, (254 - code) << 23, 1 << 22).view(torch.float32)
    multiplier = torch.where(invalid, torch.nan, torch.where(is_zero, 0.0, power))
    return code.to(torch.uint8), multiplier


def _code_by_exponent(bits: Tensor, largest: Tensor, rule: MxRule, dtype: torch.dtype) -> Tensor:
    exponent = bits >> 23
    if rule.scale_alg == BY_MANTISSA:
        # The kernel looks at bfloat16: float16 is rounded to it, float32 cut off.
        half = largest.bfloat16().float().view(torch.int32) if dtype == torch.float16 else bits
        raised = ((half >> 16) + _CARRY[rule.dst_type_max]) >> 7
        exponent = torch.where(exponent < rule.target.max_exponent, 0, raised)
    return (exponent - rule.target.max_exponent).clamp(min=0)


def _code_rounded_up(largest: Tensor, rule: MxRule) -> Tensor:
    top = ctypes.c_float(rule.dst_type_max).value or rule.target.largest
    bounded = largest.clamp(min=rule.max_low_bound) if rule.max_low_bound else largest
    bits = (bounded * torch.full_like(largest, 1.0 / top)).view(torch.int32)
    exponent, mantissa = bits >> 23, bits & _MANTISSA
    rises = (exponent > 0) & (exponent < 254) & (mantissa > 0)
    if rule.scale_alg == ROUND_UP:
        rises = rises | ((exponent == 0) & (mantissa > (1 << 22)))
    return exponent + rises.to(torch.int32)


def store_values(codes: Tensor, target: NarrowFloat) -> Tensor:
    """Codes as torch stores them: float8 in its dtype, two of four bits in a uint8."""
    return pack_pairs(codes) if target.dtype is None else codes


def store_scales(codes: Tensor, axis: int) -> Tensor:
    """Scale codes as the device stores them: in pairs of neighbours along ``axis``, with a last dimension for the two.

    An odd number is filled up with the code 0.
    """
    moved = codes.movedim(axis, -1)
    pairs = functional.pad(moved, (0, moved.size(-1) % 2)).unflatten(-1, (-1, 2))
    return pairs.movedim(-2, axis if axis >= 0 else axis - 1).contiguous()


def dequantise(y: Tensor, scales: Tensor, axis: int, target: NarrowFloat, block_size: int = 32) -> Tensor:
    """The float32 values whose quantisation ``y`` is, with ``scales`` in the device's layout.

    Args:
        y: float8, or a uint8 for each four bits.
        scales: The scales, as ``store_scales`` returns them.
        axis: The axis that blocks run along.
        target: The format of ``y``.
        block_size: The number of elements that share a scale.

    Returns:
        The values in the shape of ``y``; NaN in a block whose scale is NaN.
    """
    axis = axis % y.dim()
    codes = scales.movedim(-1, axis + 1).flatten(axis, axis + 1)
    shared = codes.view(torch.float8_e8m0fnu).float().repeat_interleave(block_size, axis)
    return decode(y, target) * shared.narrow(axis, 0, y.size(axis))

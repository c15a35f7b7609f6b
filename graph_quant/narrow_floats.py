"""Floats of eight and four bits: rounding float32 to them, and their bits.

A format with e exponent and m mantissa bits has subnormals and no infinity that a kernel here writes: larger magnitudes
saturate, and NaN becomes zero, as in the saturating mode of the kernels of Ascend 950. Rounding is half to even
(``rint``), half away from zero (``round``) or towards minus infinity (``floor``).

HiFloat8 has a prefix that says how many bits its exponent has. It rounds half away from zero, has one zero and no
negative one (that pattern is NaN), and infinities. It is carried in uint8, as torch has no such dtype.

Two values of four bits share a byte, the first one in the low half.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

RINT, ROUND, FLOOR = "rint", "round", "floor"
MODES = (RINT, ROUND, FLOOR)


@dataclass(frozen=True)
class NarrowFloat:
    """A format by GE's name; ``bias`` is that of its exponent, ``max_code`` the code of its largest value."""

    name: str
    mantissa_bits: int
    bias: int
    max_code: int
    bits: int
    dtype: torch.dtype | None = None

    @property
    def least_exponent(self) -> int:
        """The exponent of the smallest normal value, which subnormal ones share."""
        return 1 - self.bias

    @property
    def largest(self) -> float:
        """The largest value."""
        mantissa = self.max_code & ((1 << self.mantissa_bits) - 1)
        return float(2**self.max_exponent * (1 + mantissa / (1 << self.mantissa_bits)))

    @property
    def max_exponent(self) -> int:
        """The exponent of the largest value."""
        return (self.max_code >> self.mantissa_bits) - self.bias


E4M3 = NarrowFloat("float8_e4m3fn", 3, 7, 0x7E, 8, torch.float8_e4m3fn)
E5M2 = NarrowFloat("float8_e5m2", 2, 15, 0x7B, 8, torch.float8_e5m2)
E2M1 = NarrowFloat("float4_e2m1", 1, 1, 0x7, 4)
E1M2 = NarrowFloat("float4_e1m2", 2, 1, 0x7, 4)
FORMATS = (E4M3, E5M2, E2M1, E1M2)

# The numbers by which an ``int`` argument of torch_npu names a format; 23 and 24 are those of torch's dtypes.
NUMBERS = {23: E5M2, 24: E4M3, 291: E5M2, 292: E4M3, 296: E2M1, 297: E1M2}


def find_format(requested: torch.dtype | int | None) -> NarrowFloat | None:
    """The format of a requested dtype, or None if it is none of them."""
    if isinstance(requested, int):
        return NUMBERS.get(requested)
    return next((candidate for candidate in FORMATS if requested is not None and candidate.dtype is requested), None)


def encode(values: Tensor, target: NarrowFloat, mode: str = RINT) -> Tensor:
    """The codes of float32 ``values``, rounded and saturated: float8 in its dtype, four bits in a uint8 each."""
    # Inductor's conversion of float32 to float8_e5m2 gives infinities and NaN.
    if target.dtype is not None and mode == RINT and not torch.compiler.is_compiling():
        largest = target.largest
        return torch.where(values == values, values, 0.0).clamp(-largest, largest).to(target.dtype)
    codes = _encode_by_bits(values, target, mode)
    return codes if target.dtype is None else codes.view(target.dtype)


def _encode_by_bits(values: Tensor, target: NarrowFloat, mode: str) -> Tensor:
    values = torch.where(values == values, values, 0.0).clamp(-target.largest, target.largest)
    exponent = ((values.view(torch.int32) >> 23) & 0xFF) - 127
    exponent = exponent.clamp(min=target.least_exponent)
    # Powers of two by their bits: the smallest steps of the formats are far from float32's subnormals.
    per_step = ((127 - exponent + target.mantissa_bits) << 23).view(torch.float32)
    steps = _round(values * per_step, mode)
    magnitude = steps.abs().clamp(max=2.0 ** (target.mantissa_bits + 1)).to(torch.int32)
    code = ((exponent - target.least_exponent) << target.mantissa_bits) + magnitude
    sign = (values.view(torch.int32) < 0).to(torch.int32) << (target.bits - 1)
    return (code.clamp(max=target.max_code) | sign).to(torch.uint8)


def _round(values: Tensor, mode: str) -> Tensor:
    if mode == RINT:
        return values.round()
    if mode == FLOOR:
        return values.floor()
    whole = values.trunc()
    # Not floor(x + 0.5), whose sum may round up to the next integer.
    return whole + ((values - whole).abs() >= 0.5) * values.sign()


def decode(codes: Tensor, source: NarrowFloat) -> Tensor:
    """The float32 values of codes, one to an element."""
    if source.dtype is not None:
        return codes.view(source.dtype).float()
    code = codes.to(torch.int32)
    field = (code >> source.mantissa_bits) & ((1 << (source.bits - 1 - source.mantissa_bits)) - 1)
    mantissa = code & ((1 << source.mantissa_bits) - 1)
    hidden = (field > 0).to(torch.int32) << source.mantissa_bits
    step = ((field.clamp(min=1) - source.bias - source.mantissa_bits + 127) << 23).view(torch.float32)
    magnitude = (hidden + mantissa).float() * step
    return torch.where((code >> (source.bits - 1)) > 0, -magnitude, magnitude)


def pack_pairs(codes: Tensor) -> Tensor:
    """Two codes of four bits in each byte, along the last dimension; the first one in the low half."""
    pairs = codes.view(torch.uint8).unflatten(-1, (codes.size(-1) // 2, 2))
    return pairs[..., 0] | (pairs[..., 1] << 4)


def unpack_pairs(packed: Tensor) -> Tensor:
    """The codes of four bits of packed bytes, one to a uint8, along the last dimension."""
    return torch.stack([packed & 0xF, packed >> 4], -1).flatten(-2)


HIF8_NAN, HIF8_INFINITY = 0x80, 0x6F


@functools.cache
def _hif8_magnitudes() -> Tensor:
    """The values of the positive codes of HiFloat8; that of infinity as if it were a number."""
    return torch.tensor([_hif8_magnitude(code) for code in range(128)])


def _hif8_magnitude(code: int) -> float:
    """The value of a positive code."""
    if code < 8:  # subnormal: the prefix 0000 and a power of two
        return 2.0 ** (code - 23) if code else 0.0
    # The prefix, and the numbers of exponent and mantissa bits behind it.
    for prefix_bits, prefix, exponent_bits, mantissa_bits in ((2, 3, 4, 1), (2, 2, 3, 2), (2, 1, 2, 3), (3, 1, 1, 3)):
        if code >> (7 - prefix_bits) == prefix:
            field = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
            top = 1 << (exponent_bits - 1)
            exponent = (field & (top - 1)) + top
            exponent = -exponent if field & top else exponent
            return (1 + (code & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)) * 2.0**exponent
    return 1 + (code & 7) / 8


@functools.cache
def _hif8_sorted() -> tuple[Tensor, Tensor]:
    """The codes of the magnitudes in increasing order, and the midpoints between neighbours."""
    magnitudes = _hif8_magnitudes()
    values, order = magnitudes.sort()
    return order.to(torch.uint8), (values[1:] + values[:-1]) / 2


def encode_hif8(values: Tensor, *, saturate: bool = True) -> Tensor:
    """The HiFloat8 codes of float32 ``values``, rounded half away from zero.

    Args:
        values: The values.
        saturate: Whether magnitudes beyond the largest finite one, 2**15, become it; else they become infinite.

    Returns:
        The codes in uint8. NaN is 0x80, and so is no zero: a negative value that rounds to zero is 0.
    """
    order, midpoints = _hif8_sorted()
    index = torch.bucketize(values.abs(), midpoints, right=True)
    codes = order[index]
    if saturate:
        codes = torch.where(codes == HIF8_INFINITY, HIF8_INFINITY - 1, codes)
    negative = (values < 0) & (codes > 0)
    codes = torch.where(negative, codes | 0x80, codes)
    return torch.where(values == values, codes, HIF8_NAN).to(torch.uint8)


def decode_hif8(codes: Tensor) -> Tensor:
    """The float32 values of HiFloat8 codes."""
    known = codes.long() & 0x7F
    values = torch.where(known == HIF8_INFINITY, torch.inf, _hif8_magnitudes()[known])
    values = torch.where(codes > HIF8_NAN, -values, values)
    return torch.where(codes == HIF8_NAN, torch.nan, values)

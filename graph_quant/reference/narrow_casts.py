"""Conversion of floats to narrow ones as one opaque step, for code that Inductor would compile wrongly.

Inductor's own code for float32 is wrong in the last block of a row if that is short.
"""

from __future__ import annotations

import torch
from graph_quant.chip import converts_on_950, is_950
from graph_quant.narrow_floats import FORMATS, encode, encode_hif8
from graph_quant.reference.opaque import opaque
from torch import Tensor


def _infer_bytes(values: Tensor, _name: str, _mode: str) -> Tensor:
    return values.new_empty(values.shape, dtype=torch.uint8)


@opaque(_infer_bytes)
def encode_in_bytes(values: Tensor, name: str, mode: str) -> Tensor:
    """The codes of ``narrow_floats.encode`` as bytes, for the format called ``name``."""
    target = next(candidate for candidate in FORMATS if candidate.name == name)
    return encode(values, target, mode).view(torch.uint8)


def _infer_cast(values: Tensor, _name: str) -> Tensor:
    return values.new_empty(values.shape, dtype=torch.uint8)


@opaque(_infer_cast)
def cast_in_bytes(values: Tensor, name: str) -> Tensor:
    """The codes, one to a byte, that Cast of Ascend 950 gives for float16, bfloat16 or float32.

    HiFloat8 rounds half away from zero, the others half to even; float4 by way of bfloat16, and it saturates. Larger
    magnitudes become infinities of HiFloat8 and float8_e5m2, and NaN of float8_e4m3fn.
    """
    if name == "hifloat8":
        return encode_hif8(values.float(), saturate=False)
    target = next(candidate for candidate in FORMATS if candidate.name == name)
    if target.dtype is not None:
        return _without_saturation(values.float(), target.dtype).view(torch.uint8)
    return encode(values.bfloat16().float(), target).view(torch.uint8)


# Halfway from the largest float8_e4m3fn, 448, to the next step: a tie, which goes to 448.
_MOST_E4M3 = 464.0


def _without_saturation(values: Tensor, dtype: torch.dtype) -> Tensor:
    """``values`` in float8. Since 2.13 torch saturates float8_e4m3fn, which has no infinities."""
    if dtype != torch.float8_e4m3fn:
        return values.to(dtype)
    return torch.where(values.abs() > _MOST_E4M3, torch.nan, values).to(dtype)


def convert(values: Tensor, dtype: torch.dtype) -> Tensor:
    """``values`` in ``dtype`` as the chip in use converts them: where that is not what torch does, by Cast's rules."""
    if is_950() and converts_on_950(values.dtype, dtype):
        return cast_in_bytes(values, str(dtype).removeprefix("torch.")).view(dtype)
    return values

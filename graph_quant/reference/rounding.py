"""From float32 to the stored integer: round half to even, then saturate. So do float8 and HiFloat8 of Ascend 950.

NaN becomes 0, infinities become the bounds; HiFloat8 rounds half away from zero.
"""

from __future__ import annotations

import torch
from graph_quant import int4
from graph_quant.destination import INT32, NARROW, Destination
from graph_quant.narrow_floats import RINT, encode, encode_hif8, find_format
from graph_quant.reference.narrow_casts import encode_in_bytes


def saturate(values: torch.Tensor, destination: Destination) -> torch.Tensor:
    """``values`` as integers of ``destination``, one to an element (int4 as int8), or as its narrow floats."""
    if destination in NARROW:
        return _narrow(values, destination)
    bounded = values.clamp(destination.low, destination.high).round_()
    # Two spellings of "NaN becomes 0": Inductor vectorises the first, eager torch runs the second in one pass.
    if torch.compiler.is_compiling():
        bounded = torch.where(bounded == bounded, bounded, 0.0)
    else:
        bounded = bounded.nan_to_num_(nan=0.0)
    if destination is INT32:
        # float32 cannot hold 2**31 - 1 and rounds it up to 2**31, which int32 cannot hold.
        return bounded.to(torch.int64).clamp(max=destination.high).to(torch.int32)
    return bounded.to(torch.int8 if destination.is_packed else destination.storage)


def _narrow(values: torch.Tensor, destination: Destination) -> torch.Tensor:
    target = find_format(destination.storage)
    if target is not None and torch.compiler.is_compiling():
        return encode_in_bytes(values, target.name, RINT).view(destination.storage)
    if target is not None:
        return encode(values, target)
    return encode_hif8(torch.where(values == values, values, 0.0))


def rounded_away(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """float32 ``values`` as float16 or bfloat16, rounded to nearest with ties away from zero."""
    even = values.to(dtype)
    further = (even.view(torch.int16) + 1).view(dtype)
    distance = values.abs() - even.float().abs()
    is_tie = (distance > 0) & (further.float().abs() - values.abs() == distance)
    return torch.where(is_tie, further, even)


def store(values: torch.Tensor, destination: Destination) -> torch.Tensor:
    """``values`` as ``destination`` stores them: contiguous, int4 packed eight to an int32."""
    integers = saturate(values, destination)
    return int4.pack(integers) if destination.is_packed else integers.contiguous()


def affine(
    x: torch.Tensor,
    scale: torch.Tensor,
    offset: torch.Tensor | None,
    destination: Destination,
    *,
    divide: bool = False,
) -> torch.Tensor:
    """``sat(rint(x*scale + offset))``, or ``x/scale``, in float32 with a rounding after each operation."""
    values = x.float() / scale.float() if divide else x.float() * scale.float()
    if offset is not None:
        values = values + offset.float()
    return store(values, destination)

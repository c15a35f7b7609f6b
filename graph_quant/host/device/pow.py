"""Powers of float32: the exponent is a float32 as well, as on the device and in a graph.

PyTorch's CPU kernel has it in double precision for the elements that fill no vector, and in float32 for all others.
"""

from __future__ import annotations

import struct
from typing import Any

import torch
from torch import Tensor

from .kernels import Kernel

NAMES = frozenset(f"aten::{name}" for name in ("pow.Tensor_Scalar", "pow.Tensor_Scalar_out", "pow_.Scalar"))


def as_wide_as_the_base(kernel: Kernel) -> Kernel:
    """``kernel``, with the exponent rounded to float32 where the base is one."""

    def serve(base: Tensor, exponent: Any, **kwargs: Any) -> Any:
        if base.dtype == torch.float32 and type(exponent) is float:
            exponent = _in_float32(exponent)
        return kernel(base, exponent, **kwargs)

    return serve


def _in_float32(number: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")

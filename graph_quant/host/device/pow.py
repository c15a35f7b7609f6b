"""pow of float32 by a Python number: the exponent is rounded to float32, as on the device and in graphs.

PyTorch's CPU kernel uses a double-precision exponent for the elements that fill no vector, and float32 for all others.
"""

from __future__ import annotations

import struct
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from .kernels import Kernel


def _round_exponent(_op: OpOverload, kernel: Kernel) -> Kernel:
    def wrapper(base: Tensor | list[Tensor], exponent: Any, **kwargs: Any) -> Any:
        tensors = base if isinstance(base, (list, tuple)) else (base,)
        if all(tensor.dtype == torch.float32 for tensor in tensors):
            many = isinstance(exponent, (list, tuple))
            exponent = [_to_float32(number) for number in exponent] if many else _to_float32(exponent)
        return kernel(base, exponent, **kwargs)

    return wrapper


def _to_float32(number: Any) -> Any:
    if type(number) is not float:
        return number
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


WRAPPERS = dict.fromkeys(
    (
        *("aten::pow.Tensor_Scalar", "aten::pow.Tensor_Scalar_out", "aten::pow_.Scalar"),
        *(f"aten::_foreach_pow{suffix}.{form}" for suffix in ("", "_") for form in ("Scalar", "ScalarList")),
    ),
    _round_exponent,
)

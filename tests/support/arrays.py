"""Helpers of NumPy statements: torch tensors as arrays, and rounding modes that NumPy lacks."""

from typing import Any

import numpy as np
import torch

Array = Any


def numbers(tensor: torch.Tensor) -> Array:
    """The values of a tensor; half precision as float32, which holds it exactly."""
    return tensor.float().numpy() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor.numpy()


def as_bf16(values: Array) -> Array:
    """float32 rounded to bfloat16, half to even."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    near = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return np.where(np.isnan(values), np.float32(np.nan), near.astype(np.uint32).view(np.float32))


def floor_bf16(values: Array) -> Array:
    """float32 rounded to bfloat16, towards minus infinity."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    cut = bits & np.uint32(0xFFFF0000)
    step = np.where((bits != cut) & (np.asarray(values) < 0), np.uint32(0x10000), np.uint32(0))
    return (cut + step).astype(np.uint32).view(np.float32)


def rounded(values: Array, dtype: torch.dtype) -> Array:
    """float32 as a result of ``dtype`` holds it, again as float32."""
    if dtype == torch.bfloat16:
        return as_bf16(values)
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32) if dtype == torch.float16 else values


def int4_elements(packed: torch.Tensor, along: int = -1) -> Array:
    """The elements of int32 that hold eight int4 each, lowest bits first, along a dimension."""
    words = np.moveaxis(packed.numpy(), along, -1).view(np.uint32)
    nibbles = (words[..., None] >> np.arange(0, 32, 4, dtype=np.uint32)) & 0xF
    elements = nibbles.astype(np.int64).reshape(*words.shape[:-1], words.shape[-1] * 8)
    return np.moveaxis(np.where(elements > 7, elements - 16, elements), -1, along)


def exp(values: Array) -> Array:
    """The float32 nearest to the exponential."""
    with np.errstate(over="ignore"):
        return np.exp(np.asarray(values).astype(np.float64)).astype(np.float32)


def to_int8(values: Array) -> Array:
    """Round half to even, saturate; NaN is 0."""
    return np.nan_to_num(np.clip(np.rint(values), -128, 127), nan=0.0).astype(np.int8)

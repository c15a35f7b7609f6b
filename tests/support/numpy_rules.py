"""The operators' arithmetic in NumPy, element by element, independent of the package."""

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float32]
BOUNDS = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 1), "int4": (-8, 7)}
STORAGE = {"int8": np.int8, "uint8": np.uint8, "int32": np.int32, "int4": np.int8}


def floats(tensor: torch.Tensor) -> Floats:
    return tensor.detach().cpu().to(torch.float32).numpy()


def integers(values: Floats, kind: str) -> NDArray[np.integer]:
    """Round half to even, saturate, NaN to 0: in float64, which holds every bound."""
    assert values.dtype == np.float32
    low, high = BOUNDS[kind]
    rounded = np.rint(values.astype(np.float64))
    return np.where(np.isnan(rounded), 0, np.clip(rounded, low, high)).astype(STORAGE[kind])


def pack(values: NDArray[np.integer]) -> NDArray[np.int32]:
    """Eight elements to an int32, the first in the lowest four bits."""
    nibbles = (values.astype(np.int64) & 0xF).reshape(*values.shape[:-1], -1, 8)
    words = sum(nibbles[..., j] << (4 * j) for j in range(8))
    return np.asarray(words, dtype=np.int64).astype(np.uint32).view(np.int32)


def stored(values: Floats, kind: str) -> NDArray[np.integer]:
    whole = integers(values, kind)
    return pack(whole) if kind == "int4" else whole


def group_quant(x: Floats, scale: Floats, ends: list[int], offset: float | None, kind: str) -> NDArray[np.integer]:
    values = np.empty(x.shape, np.float32)
    start = 0
    for group, end in enumerate(ends):
        for row in range(start, end):
            values[row] = x[row] * scale[group]
            if offset is not None:
                values[row] += np.float32(offset)
        start = end
    return stored(values, kind)


def quantize(x: Floats, scale: Floats, zero: Floats | None, axis: int, divide: bool, kind: str) -> NDArray[np.integer]:
    shape = [1] * x.ndim
    shape[axis] = -1
    with np.errstate(all="ignore"):
        values = x / scale.reshape(shape) if divide else x * scale.reshape(shape)
        if zero is not None:
            values = values + zero.reshape(shape)
    return stored(values.astype(np.float32), kind)


def trans_quant_param(scale: float, offset: float | None, round_mode: int) -> int:
    bits = int(np.float32(scale).view(np.uint32))
    if round_mode == 1:
        exponent = (bits >> 23) & 0xFF
        if exponent == 0:
            bits &= 1 << 31
        elif exponent != 0xFF:
            kept, dropped = bits >> 13, bits & 0x1FFF
            kept += dropped > 0x1000 or (dropped == 0x1000 and kept & 1)
            bits = kept << 13
    word = (bits >> 13) << 13 | 1 << 46
    if offset is not None:
        whole = 0 if np.isnan(offset) else int(np.clip(np.rint(np.float64(offset)), -256, 255))
        word |= (whole & 0x1FF) << 37
    return word


def dynamic_quant(
    row: Floats, kind: str, symmetric: bool, top: float | None = None
) -> tuple[NDArray[np.integer], np.float32, np.float32]:
    """Quantise a row with one scale: returns unpacked integers, scale, offset (0 if symmetric)."""
    low, high = BOUNDS[kind]
    most = np.float32(high if top is None else top)
    with np.errstate(all="ignore"):
        if symmetric:
            largest = np.max(np.abs(row))
            return integers(row * (most / largest), kind), largest * (np.float32(1) / most), np.float32(0)
        largest, smallest = np.max(row), np.min(row)
        scale = np.maximum((largest - smallest) / (most - np.float32(low)), np.float32(1e-12))
        offset = most - largest / scale
        return integers(row * (np.float32(1) / scale) + offset, kind), scale, offset

"""What stands for each of GE's dtypes in torch, decided here and nowhere else.

Where torch has no such type:

* int4: ``torch.int8``, one element each, in [-8, 7]. Packing happens in Bitcast alone;
* uint64: ``torch.uint64``, with the bits that GE gives it;
* qint8, quint8, qint32: the plain integers that they store;
* hifloat8: ``torch.uint8``, its bits.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from . import dtypes

_ALIKE = (
    "float32", "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool", "complex32", "complex64", "complex128", "float8_e5m2", "float8_e4m3fn",
)  # fmt: skip
_STORED: dict[str, torch.dtype] = {
    **{word: getattr(torch, word) for word in _ALIKE},
    "int4": torch.int8,
    "qint8": torch.int8,
    "quint8": torch.uint8,
    "qint32": torch.int32,
    "hifloat8": torch.uint8,
    "float8_e8m0": torch.float8_e8m0fnu,
}
_WORDS = {_STORED[word]: word for word in (*_ALIKE, "float8_e8m0")}


def from_attr(number: int) -> torch.dtype:
    """The torch dtype for a ``ge::DataType`` number, as attributes carry it."""
    dtype = _STORED.get(dtypes.OF_ATTRIBUTE.get(number, ""))
    if dtype is None:
        raise TypeError(f"the engine has no type for ge::DataType {number}")
    return dtype


def from_desc(number: int) -> torch.dtype:
    """The torch dtype for a proto number, as descs and constants carry it."""
    dtype = _STORED.get(dtypes.OF_DESC.get(number, ""))
    if dtype is None:
        raise TypeError(f"the engine has no type for the proto data type {number}")
    return dtype


def word_of(dtype: torch.dtype) -> str:
    """GE's word for a torch dtype."""
    return _WORDS.get(dtype, str(dtype).removeprefix("torch."))


def decode_tensor(tensor: Any) -> torch.Tensor:
    """A TensorDef as a torch tensor. One that claims other elements than it carries is refused."""
    dtype = from_desc(tensor.desc.dtype)
    shape = tuple(tensor.desc.shape.dim)
    count = math.prod(shape)
    if min(shape, default=0) < 0 or len(tensor.data) != count * dtype.itemsize:
        name = str(dtype).removeprefix("torch.")
        raise ValueError(f"a tensor claims to be {name}{list(shape)} and carries {len(tensor.data)} bytes")
    if not count:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(tensor.data), dtype=dtype).reshape(shape)

"""GE's two dtype numberings and what stands for each type in torch, decided here and nowhere else.

Attributes carry ``ge::DataType`` numbers, tensor descs and constants carry the numbers of the proto. Where torch has
no such type the engine uses:

* int4: ``torch.int8``, one element each, in [-8, 7]. Packing happens in Bitcast alone;
* uint64: ``torch.uint64``, with the bits that GE gives it;
* qint8, quint8, qint32: the plain integers that they store.
"""

from __future__ import annotations

import torch

INT4_ATTR, INT4_DESC = 29, 28

_ATTR_DTYPES: dict[int, torch.dtype] = {
    0: torch.float32,
    1: torch.float16,
    2: torch.int8,
    3: torch.int32,
    4: torch.uint8,
    6: torch.int16,
    7: torch.uint16,
    8: torch.uint32,
    9: torch.int64,
    10: torch.uint64,
    11: torch.float64,
    12: torch.bool,
    16: torch.complex64,
    17: torch.complex128,
    18: torch.int8,
    20: torch.int32,
    21: torch.uint8,
    27: torch.bfloat16,
    INT4_ATTR: torch.int8,
    33: torch.complex32,
    34: torch.uint8,
    35: torch.float8_e5m2,
    36: torch.float8_e4m3fn,
    37: torch.float8_e8m0fnu,
}

_DESC_DTYPES: dict[int, torch.dtype] = {
    1: torch.float32,
    2: torch.float16,
    3: torch.int8,
    4: torch.uint8,
    5: torch.int16,
    6: torch.uint16,
    7: torch.int32,
    8: torch.int64,
    9: torch.uint32,
    10: torch.uint64,
    11: torch.bool,
    12: torch.float64,
    16: torch.complex64,
    17: torch.complex128,
    18: torch.int8,
    20: torch.int32,
    21: torch.uint8,
    27: torch.bfloat16,
    INT4_DESC: torch.int8,
    32: torch.complex32,
    33: torch.uint8,
    34: torch.float8_e5m2,
    35: torch.float8_e4m3fn,
    36: torch.float8_e8m0fnu,
}


def from_attr(number: int) -> torch.dtype:
    """The torch dtype for a ``ge::DataType`` number, as attributes carry it."""
    dtype = _ATTR_DTYPES.get(number)
    if dtype is None:
        raise TypeError(f"the engine has no type for ge::DataType {number}")
    return dtype


def from_desc(number: int) -> torch.dtype:
    """The torch dtype for a proto number, as descs and constants carry it."""
    dtype = _DESC_DTYPES.get(number)
    if dtype is None:
        raise TypeError(f"the engine has no type for the proto data type {number}")
    return dtype

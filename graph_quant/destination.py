"""The destination of a quantisation: what a caller requests, and what torch and GE store for it.

Every layer uses this module. One destination has up to three spellings in torch (``torch.int8``,
``torch.qint8`` and the integer that an ``int`` argument receives for either), one storage dtype, and two
GE numbers: the ``ge::DataType`` that attributes carry and the proto enum that tensor descs carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from graph_quant.ge import TO_ATTRIBUTE, TO_DESC
from graph_quant.refusals import Refusal


@dataclass(frozen=True)
class Destination:
    """A result type, by GE's word. ``packing`` elements share one storage element; ``low``..``high`` is its range."""

    name: str
    storage: torch.dtype
    spellings: tuple[torch.dtype, ...]
    packing: int = 1
    low: int = 0
    high: int = 0

    @property
    def ge_attr(self) -> int:
        return TO_ATTRIBUTE[self.name]

    @property
    def ge_desc(self) -> int:
        return TO_DESC[self.name]

    @property
    def is_packed(self) -> bool:
        return self.packing > 1

    def stored_shape(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """Return the shape in storage elements of a result with ``shape`` quantised elements."""
        if not self.is_packed:
            return tuple(shape)
        return (*shape[:-1], shape[-1] // self.packing)


INT8 = Destination("int8", torch.int8, (torch.int8, torch.qint8), low=-128, high=127)
UINT8 = Destination("uint8", torch.uint8, (torch.uint8, torch.quint8), low=0, high=255)
INT32 = Destination("int32", torch.int32, (torch.int32, torch.qint32), low=-(2**31), high=2**31 - 1)
INT4 = Destination("int4", torch.int32, (torch.quint4x2,), packing=8, low=-8, high=7)
FLOAT16 = Destination("float16", torch.float16, (torch.float16,))
BFLOAT16 = Destination("bfloat16", torch.bfloat16, (torch.bfloat16,))
FLOAT32 = Destination("float32", torch.float32, (torch.float32,))
# Narrow floats of Ascend 950; torch has no dtype for HiFloat8, whose bits are in uint8.
E4M3 = Destination("float8_e4m3fn", torch.float8_e4m3fn, (torch.float8_e4m3fn,), low=-448, high=448)
E5M2 = Destination("float8_e5m2", torch.float8_e5m2, (torch.float8_e5m2,), low=-57344, high=57344)
HIFLOAT8 = Destination("hifloat8", torch.uint8, (), low=-32768, high=32768)

NARROW = (E4M3, E5M2, HIFLOAT8)
ALL = (INT8, UINT8, INT32, INT4, FLOAT16, BFLOAT16, FLOAT32, *NARROW)

# A GE int4 tensor is not packed; a Bitcast in the graph packs it.
INT4_ELEMENTS = replace(INT4, storage=torch.int8, packing=1)
# The storage of npu_swiglu_quant only: two int4 in an int8.
INT4_PAIRS = replace(INT4, storage=torch.int8, packing=2)


def element_destination(ge_attr: int) -> Destination:
    """Return the destination of a GE node's dtype attribute, with unpacked int4."""
    if ge_attr == INT4.ge_attr:
        return INT4_ELEMENTS
    destination = next((candidate for candidate in ALL if candidate.ge_attr == ge_attr), None)
    if destination is None:
        raise TypeError(f"no destination has the ge::DataType {ge_attr}")
    return destination


# The order of c10::ScalarType: an ``int`` argument of a schema receives a dtype as its position here.
SCALAR_TYPES: dict[int, torch.dtype] = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    11: torch.bool,
    12: torch.qint8,
    13: torch.quint8,
    14: torch.qint32,
    15: torch.bfloat16,
    16: torch.quint4x2,
    23: torch.float8_e5m2,
    24: torch.float8_e4m3fn,
}
# The numbers of torch_npu's own dtypes.
NPU_NUMBERS = {290: HIFLOAT8, 291: E5M2, 292: E4M3}


def find(requested: torch.dtype | int | None) -> Destination | None:
    """Return the destination of a requested dtype, or None if there is none; without a request it is int8."""
    if requested is None:
        return INT8
    if isinstance(requested, int) and requested in NPU_NUMBERS:
        return NPU_NUMBERS[requested]
    dtype = SCALAR_TYPES.get(requested) if isinstance(requested, int) else requested
    return next((candidate for candidate in ALL if dtype in candidate.spellings), None)


def resolve(op: str, argument: str, requested: torch.dtype | int | None, allowed: Sequence[Destination]) -> Destination:
    """Return the destination for ``requested``; raise Refusal naming what ``op`` accepts for ``argument``."""
    destination = find(requested)
    if destination is None or destination not in allowed:
        spellings = [candidate.spellings or ("torch_npu.hifloat8",) for candidate in allowed]
        accepted = ", ".join(str(dtype) for words in spellings for dtype in words)
        raise Refusal(f"{op}: {argument} must be one of {accepted}, got {describe(requested)}")
    return destination


def describe(requested: torch.dtype | int | None) -> str:
    """Return how a message names what the caller passed: the dtype, also where it was passed as an integer."""
    if isinstance(requested, int) and requested in NPU_NUMBERS:
        return f"torch_npu.{NPU_NUMBERS[requested].name}"
    if isinstance(requested, int):
        return str(SCALAR_TYPES.get(requested, f"the unknown dtype number {requested}"))
    return str(requested)

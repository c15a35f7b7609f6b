"""Unpacking of int4: int4.c."""

from __future__ import annotations

from struct import Struct

from torch import Tensor, int8, int32

from .library import IN_THREADS, empty_strided, function

# ``struct elements`` of int4.c: packed, y; bytes.
_ELEMENTS = Struct("2Pn")

_unpack = function("graph_quant_int4")


def can_unpack_int4(packed: Tensor) -> bool:
    """Whether ``unpack_int4`` takes this tensor; fake tensors may be passed."""
    return _unpack is not None and packed.dtype == int32 and packed.is_cpu and packed.is_contiguous()


def unpack_int4(packed: Tensor) -> Tensor:
    """Unpack int32 that ``can_unpack_int4`` accepts: int8 with eight times the last dimension."""
    assert _unpack is not None
    elements = packed.numel() * 8
    y = empty_strided((elements,), (1,), int8)
    _unpack(_ELEMENTS.pack(packed.data_ptr(), y.data_ptr(), elements // 2), IN_THREADS, 1)
    return y.view(*packed.shape[:-1], packed.size(-1) * 8)

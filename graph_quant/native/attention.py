"""Attention of one sequence: attention.c."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from torch import Tensor

from .library import IN_THREADS, KINDS, function, threads_for

_POINTERS = ("q", "k", "v", "out", "largest", "total", "mask")
_SIZES = (
    "q_head", "q_row", "k_head", "k_row", "v_head", "v_row", "out_head", "out_row", "rows_head", "rows_row",
    "mask_head", "mask_row", "mask_key",
    "heads", "key_heads", "queries", "keys", "channels", "value_channels", "copies", "first", "last",
)  # fmt: skip
_EVERYWHERE = 1 << 31
_NOWHERE = (0, 0, 0)


class _Attention(ctypes.Structure):
    """``struct attention`` of attention.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_ssize_t) for name in _SIZES),
        ("scale", ctypes.c_float),
        ("kind", ctypes.c_int32),
        ("blind_gives_zeros", ctypes.c_int32),
    )


class Hidden(NamedTuple):
    """Which keys a query does not see: those that a mask (head or 1, query, key) of bytes names, and those by place.

    Query i sees the keys from i + ``first`` to i + ``last``, without an end where that is None. A row that sees
    nothing by its place gives zeros; one that sees nothing by the mask as well does so where ``gives_zeros`` says so,
    and else gives the mean of the values.
    """

    mask: Tensor | None = None
    first: int | None = None
    last: int | None = None
    gives_zeros: bool = False


_attention = function("graph_quant_attention")


def attends(*operands: Tensor) -> bool:
    """Whether ``attend`` takes these, each (head, token, channel), none of them empty."""
    kind = operands[0].dtype
    return (
        _attention is not None
        and kind in KINDS
        and kind.is_floating_point
        and all(each.dtype is kind and each.is_cpu and each.stride(-1) == 1 and each.numel() for each in operands)
    )


def attend(
    q: Tensor, k: Tensor, v: Tensor, scale: float, hidden: Hidden, out: Tensor, largest: Tensor, total: Tensor
) -> None:
    """Write the result of operands that ``attends`` says yes to into ``out`` (head, query, channel), of any strides.

    Of each row the largest score and the sum of the exponentials go to ``largest`` and ``total``, float32 and alike,
    (head, query, copies), as often as there are copies.
    """
    assert _attention is not None
    (heads, queries, channels), (key_heads, keys, _), copies = q.shape, k.shape, largest.size(-1)
    mask: Tensor | None = hidden.mask
    strides: tuple[int, ...] = _NOWHERE
    if mask is not None:
        if mask.element_size() > 1 or mask.stride(-1) > 1:
            mask = mask.bool().contiguous()
        mask = mask.expand(heads, queries, keys)
        strides = mask.stride()
    given = _Attention(
        *(each.data_ptr() for each in (q, k, v, out, largest, total)),
        None if mask is None else mask.data_ptr(),
        *(stride for each in (q, k, v, out, largest) for stride in each.stride()[:2]),
        *strides,
        heads,
        key_heads,
        queries,
        keys,
        channels,
        v.size(2),
        copies,
        -_EVERYWHERE if hidden.first is None else max(hidden.first, -_EVERYWHERE),
        _EVERYWHERE if hidden.last is None else min(hidden.last, _EVERYWHERE),
        scale,
        KINDS[q.dtype],
        hidden.gives_zeros,
    )
    if _attention(ctypes.byref(given), IN_THREADS, threads_for(heads * queries * keys * channels)):
        raise MemoryError(f"attention of {heads} heads, {queries} queries and {keys} keys")

"""Attention of one sequence: attention.c."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from torch import Tensor

from .library import IN_THREADS, KINDS, function, threads_for

# ``struct attention`` of attention.c: q, k, v, out, largest, total, mask; of the first five, without total, the strides
# of heads and tokens, and the strides of the mask; heads, key_heads, queries, keys, channels, value_channels, copies,
# first, last; scale; kind, blind_gives_zeros.
_ATTENTION = Struct("7P22nd2i")
_EVERYWHERE = 1 << 31
_NOWHERE = (0, 0, 0)


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
    given = _ATTENTION.pack(
        q.data_ptr(),
        k.data_ptr(),
        v.data_ptr(),
        out.data_ptr(),
        largest.data_ptr(),
        total.data_ptr(),
        0 if mask is None else mask.data_ptr(),
        *q.stride()[:2],
        *k.stride()[:2],
        *v.stride()[:2],
        *out.stride()[:2],
        *largest.stride()[:2],
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
    if _attention(given, IN_THREADS, threads_for(heads * queries * keys * channels)):
        raise MemoryError(f"attention of {heads} heads, {queries} queries and {keys} keys")

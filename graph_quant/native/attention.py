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
_UNBOUNDED = 1 << 31
_NO_MASK_STRIDES = (0, 0, 0)


class HiddenKeys(NamedTuple):
    """The keys that are masked for a query: by a mask (head or 1, query, key) of bytes, and by their positions.

    Query i attends to the keys from i + ``first`` to i + ``last``; None is no bound. A row without keys by position is
    zero. A row without keys because of the mask is zero with ``gives_zeros``, else the mean of the values.
    """

    mask: Tensor | None = None
    first: int | None = None
    last: int | None = None
    gives_zeros: bool = False


_attention = function("graph_quant_attention")


def can_attend(*operands: Tensor) -> bool:
    """Whether ``attend`` takes these operands, each (head, token, channel) and not empty."""
    kind = operands[0].dtype
    return (
        _attention is not None
        and kind in KINDS
        and kind.is_floating_point
        and all(x.dtype is kind and x.is_cpu and x.stride(-1) == 1 and x.numel() for x in operands)
    )


def attend(
    q: Tensor, k: Tensor, v: Tensor, scale: float, hidden: HiddenKeys, out: Tensor, largest: Tensor, total: Tensor
) -> None:
    """Write the attention of operands that ``can_attend`` accepts into ``out`` (head, query, channel), of any strides.

    The largest score and the sum of the exponentials of each row are written to ``largest`` and ``total``, float32
    tensors (head, query, copies) of equal strides, once per copy.
    """
    assert _attention is not None
    (heads, queries, channels), (key_heads, keys, _), copies = q.shape, k.shape, largest.size(-1)
    mask: Tensor | None = hidden.mask
    strides: tuple[int, ...] = _NO_MASK_STRIDES
    if mask is not None:
        if mask.element_size() > 1 or mask.stride(-1) > 1:
            mask = mask.bool().contiguous()
        mask = mask.expand(heads, queries, keys)
        strides = mask.stride()
    arguments = _ATTENTION.pack(
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
        -_UNBOUNDED if hidden.first is None else max(hidden.first, -_UNBOUNDED),
        _UNBOUNDED if hidden.last is None else min(hidden.last, _UNBOUNDED),
        scale,
        KINDS[q.dtype],
        hidden.gives_zeros,
    )
    if _attention(arguments, IN_THREADS, threads_for(heads * queries * keys * channels)):
        raise MemoryError(f"attention of {heads} heads, {queries} queries and {keys} keys")

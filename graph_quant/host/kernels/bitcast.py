"""Bitcast, which also packs and unpacks int4."""

from __future__ import annotations

import torch
from torch import Tensor

from ... import int4
from ...destination import INT4
from ...dispatcher import step
from ...ge import from_attr, kernel
from ...reference.blocks import BLOCK_ELEMENTS


@kernel("Bitcast", may_alias=True, view=True)
def bitcast(x: Tensor, *, type: int, keep_dim: bool = False) -> Tensor:  # noqa: A002
    """The same bits as another type; a change of width adds or removes a last dimension, or scales it."""
    if type == INT4.ge_attr:
        elements = int4.unpack(x)
        return elements if keep_dim else elements.reshape([*x.shape, INT4.packing])
    dtype = from_attr(type)
    if x.dtype == dtype == torch.int8:
        # int8 have no reason to become int8: these are int4, two to a byte.
        packed = int4.pack_pairs(x)
        return packed if keep_dim else packed.squeeze(-1)
    if x.dtype == torch.int8 and dtype == torch.int32 and (keep_dim or x.size(-1) == INT4.packing):
        packed = _pack_int4(x)
        return packed if keep_dim else packed.squeeze(-1)
    if x.element_size() == dtype.itemsize:
        return x.view(dtype)
    if x.element_size() < dtype.itemsize:
        joined = x.contiguous().view(dtype)
        return joined if keep_dim else joined.squeeze(-1)
    parts = x.contiguous().unsqueeze(-1).view(dtype)
    return parts.flatten(-2) if keep_dim else parts


def _pack(elements: Tensor) -> Tensor:
    blocks = [int4.pack(block) for block in elements.reshape(-1).split(BLOCK_ELEMENTS)]
    return torch.cat(blocks).reshape([*elements.shape[:-1], elements.size(-1) // INT4.packing])


def _fake_pack(elements: Tensor) -> Tensor:
    width = elements.size(-1) // INT4.packing
    return elements.new_empty([*elements.shape[:-1], width], dtype=torch.int32)


_step = step("pack_int4(Tensor elements) -> Tensor", _pack, _fake_pack)


def _pack_int4(elements: Tensor) -> Tensor:
    """``elements`` packed eight to an int32; outside compiled code in blocks that stay in cache."""
    if torch.compiler.is_compiling():
        return int4.pack(elements)
    return _step(elements)  # type: ignore[no-any-return]

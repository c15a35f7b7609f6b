"""Bitcast, which also packs and unpacks int4."""

from __future__ import annotations

import torch
from torch import Tensor

from ... import int4
from ...destination import INT4
from ...ge.kernels import kernel
from ...ge.torch_dtypes import from_attr
from . import opaque


@kernel("Bitcast", view=True)
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
        packed = opaque.pack_int4(x)
        return packed if keep_dim else packed.squeeze(-1)
    if x.element_size() == dtype.itemsize:
        return x.view(dtype)
    if x.element_size() < dtype.itemsize:
        joined = x.contiguous().view(dtype)
        return joined if keep_dim else joined.squeeze(-1)
    parts = x.contiguous().unsqueeze(-1).view(dtype)
    return parts.flatten(-2) if keep_dim else parts

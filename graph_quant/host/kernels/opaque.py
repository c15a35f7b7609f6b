"""The packing of int4 in blocks, one step to a tracer."""

from __future__ import annotations

import torch
from torch import Tensor

from ... import int4
from ...destination import INT4
from ...dispatcher import step
from ...reference.blocks import BLOCK_ELEMENTS


def _pack(elements: Tensor) -> Tensor:
    blocks = [int4.pack(block) for block in elements.reshape(-1).split(BLOCK_ELEMENTS)]
    return torch.cat(blocks).reshape([*elements.shape[:-1], elements.size(-1) // INT4.packing])


def _fake_pack(elements: Tensor) -> Tensor:
    width = elements.size(-1) // INT4.packing
    return elements.new_empty([*elements.shape[:-1], width], dtype=torch.int32)


_step = step("pack_int4(Tensor elements) -> Tensor", _pack, _fake_pack)


def pack_int4(elements: Tensor) -> Tensor:
    """``elements`` packed eight to an int32; outside compiled code in blocks that stay in cache."""
    if torch.compiler.is_compiling():
        return int4.pack(elements)
    return _step(elements)  # type: ignore[no-any-return]

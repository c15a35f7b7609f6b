"""The packing of int4 in blocks, one step to a tracer."""

from __future__ import annotations

import torch
from torch import Tensor

from ... import int4
from ...destination import INT4
from ...reference.blocks import BLOCK_ELEMENTS

_library = torch.library.Library("graph_quant", "FRAGMENT")


def _pack(elements: Tensor) -> Tensor:
    blocks = [int4.pack(block) for block in elements.reshape(-1).split(BLOCK_ELEMENTS)]
    return torch.cat(blocks).reshape([*elements.shape[:-1], elements.size(-1) // INT4.packing])


def _fake_pack(elements: Tensor) -> Tensor:
    width = elements.size(-1) // INT4.packing
    return elements.new_empty([*elements.shape[:-1], width], dtype=torch.int32)


_library.define("pack_int4(Tensor elements) -> Tensor")
_library.impl("pack_int4", _pack, "CPU")
torch.library.register_fake("graph_quant::pack_int4", _fake_pack, lib=_library)


def pack_int4(elements: Tensor) -> Tensor:
    """``elements`` packed eight to an int32; outside compiled code in blocks that stay in cache."""
    if torch.compiler.is_compiling():
        return int4.pack(elements)
    return torch.ops.graph_quant.pack_int4(elements)  # type: ignore[no-any-return]

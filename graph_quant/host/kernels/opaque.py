"""Operators of our own, each one step to a tracer: checks of data, and the packing of int4 in blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from ... import int4
from ...destination import INT4
from ...reference.blocks import BLOCK_ELEMENTS
from ...reference.groups import check_group_ends

# Opaque to compilers, and its result is used, so that no compiler drops or reorders the check.
_library = torch.library.Library("graph_quant", "FRAGMENT")
_library.define("group_ends(str op, Tensor group_index, SymInt rows, bool allow_empty) -> Tensor")


def _check(op: str, group_index: Tensor, rows: int, allow_empty: bool) -> Tensor:
    check_group_ends(op, group_index, rows, allow_empty=allow_empty)
    return group_index.clone()


def _fake(op: str, group_index: Tensor, rows: int, allow_empty: bool) -> Tensor:  # noqa: ARG001
    return torch.empty_like(group_index)


def _pack(elements: Tensor) -> Tensor:
    blocks = [int4.pack(block) for block in elements.reshape(-1).split(BLOCK_ELEMENTS)]
    return torch.cat(blocks).reshape([*elements.shape[:-1], elements.size(-1) // INT4.packing])


def _fake_pack(elements: Tensor) -> Tensor:
    width = elements.size(-1) // INT4.packing
    return elements.new_empty([*elements.shape[:-1], width], dtype=torch.int32)


_library.define("pack_int4(Tensor elements) -> Tensor")
_library.impl("pack_int4", _pack, "CPU")
torch.library.register_fake("graph_quant::pack_int4", _fake_pack, lib=_library)
_library.impl("group_ends", _check, "CPU")
torch.library.register_fake("graph_quant::group_ends", _fake, lib=_library)


def group_ends(op: str, group_index: Tensor, rows: int, allow_empty: bool) -> Tensor:
    """``group_index``, refused where the device kernel would trap."""
    return torch.ops.graph_quant.group_ends(op, group_index, rows, allow_empty)  # type: ignore[no-any-return]


def pack_int4(elements: Tensor) -> Tensor:
    """``elements`` packed eight to an int32; outside compiled code in blocks that stay in cache."""
    if torch.compiler.is_compiling():
        return int4.pack(elements)
    return torch.ops.graph_quant.pack_int4(elements)  # type: ignore[no-any-return]

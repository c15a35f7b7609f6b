"""Checks of data that must happen where the data is, also inside compiled code."""

from __future__ import annotations

import torch
from torch import Tensor

from ...reference.groups import check_group_ends

# Opaque to compilers, and its result is used, so that no compiler drops or reorders the check.
_library = torch.library.Library("graph_quant", "FRAGMENT")
_library.define("group_ends(str op, Tensor group_index, SymInt rows, bool allow_empty) -> Tensor")


def _check(op: str, group_index: Tensor, rows: int, allow_empty: bool) -> Tensor:
    check_group_ends(op, group_index, rows, allow_empty=allow_empty)
    return group_index.clone()


def _fake(op: str, group_index: Tensor, rows: int, allow_empty: bool) -> Tensor:  # noqa: ARG001
    return torch.empty_like(group_index)


_library.impl("group_ends", _check, "CPU")
torch.library.register_fake("graph_quant::group_ends", _fake, lib=_library)


def group_ends(op: str, group_index: Tensor, rows: int, allow_empty: bool) -> Tensor:
    """``group_index``, refused where the device kernel would trap."""
    return torch.ops.graph_quant.group_ends(op, group_index, rows, allow_empty)  # type: ignore[no-any-return]

"""Rows copied by index: one step to a compiler, which would else compute a row again for every copy of it."""

from __future__ import annotations

import torch
from torch import Tensor

_library = torch.library.Library("graph_quant", "FRAGMENT")
_library.define("copied_rows(Tensor x, Tensor index) -> Tensor")


def _copied(x: Tensor, index: Tensor) -> Tensor:
    return x.index_select(0, index)


def _inferred(x: Tensor, index: Tensor) -> Tensor:
    return x.new_empty((index.size(0), *x.shape[1:]))


_library.impl("copied_rows", _copied, "CPU")
torch.library.register_fake("graph_quant::copied_rows", _inferred, lib=_library)


def copied_rows(x: Tensor, index: Tensor) -> Tensor:
    """Row ``index[i]`` of ``x`` as row i."""
    if torch.compiler.is_compiling():
        return torch.ops.graph_quant.copied_rows(x, index)  # type: ignore[no-any-return]
    return _copied(x, index)

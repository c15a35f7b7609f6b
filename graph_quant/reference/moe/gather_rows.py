"""Rows copied by index: one opaque operator to a compiler, which would otherwise recompute a row for each copy."""

from __future__ import annotations

import torch
from graph_quant.dispatcher import step
from torch import Tensor


def _gather(x: Tensor, index: Tensor) -> Tensor:
    return x.index_select(0, index)


def _infer(x: Tensor, index: Tensor) -> Tensor:
    return x.new_empty((index.size(0), *x.shape[1:]))


_step = step("gather_rows(Tensor x, Tensor index) -> Tensor", _gather, _infer)


def gather_rows(x: Tensor, index: Tensor) -> Tensor:
    """A tensor whose row i is row ``index[i]`` of ``x``."""
    if torch.compiler.is_compiling():
        return _step(x, index)  # type: ignore[no-any-return]
    return _gather(x, index)

"""Dynamic quantisation of rows to int8 by the package's native code. It is one opaque operator to tracers."""

from __future__ import annotations

import torch
from graph_quant import native
from graph_quant.dispatcher import step


def quantise_rows(x: torch.Tensor, smooth: torch.Tensor | None, inverts: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of a matrix that ``native.can_quantise_rows`` accepts, as int8, and the scale of each."""
    if type(x) is torch.Tensor and not torch.compiler.is_dynamo_compiling():
        return _compute(x, smooth, inverts)
    return STEP(x, smooth, inverts)  # type: ignore[no-any-return]


def _compute(x: torch.Tensor, smooth: torch.Tensor | None, inverts: bool) -> tuple[torch.Tensor, torch.Tensor]:
    return native.quantise_rows(x, None if smooth is None else smooth.float().contiguous(), inverts)


def _infer(x: torch.Tensor, smooth: torch.Tensor | None, inverts: bool) -> tuple[torch.Tensor, torch.Tensor]:
    del smooth, inverts
    return x.new_empty(x.shape, dtype=torch.int8), x.new_empty((x.size(0),), dtype=torch.float32)


STEP = step("quantise_rows(Tensor x, Tensor? smooth, bool inverts) -> (Tensor, Tensor)", _compute, _infer)

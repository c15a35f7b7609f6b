"""Copies of tokens, times the smooth scales of their experts, quantised to int8 with a scale for each row.

``scale = max|v| / 127`` and ``y = rint(v / scale)``, a true quotient. A normal scale, neither zero nor subnormal nor
infinite, bounds the quotients of its row by little more than 127, so that nothing saturates and no NaN occurs. If all
scales are normal, both cases are skipped. The function is opaque to compilers, because this choice depends on data.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from graph_quant.destination import INT8
from graph_quant.reference.blocks import by_row_blocks
from graph_quant.reference.moe.tiling import round_half_away
from graph_quant.reference.opaque import opaque
from graph_quant.reference.rounding import saturate
from torch import Tensor

_SMALLEST = torch.finfo(torch.float32).smallest_normal


def _infer(x: Tensor, token: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return x.new_empty((token.size(0), x.size(1)), dtype=torch.int8), x.new_empty(token.shape, dtype=torch.float32)


@opaque(_infer)
def quantise_smoothed_rows(
    x: Tensor, token: Tensor, expert: Tensor, smooth: Tensor, through_half: bool, fused: bool
) -> tuple[Tensor, Tensor]:
    """Row i is token ``token[i]`` of ``x`` times row ``expert[i]`` of ``smooth``, quantised; the scales of the rows."""
    tensors = x, token, expert, smooth
    if fused and token.size(0) > 1:
        scale = _compiled(_scales)(*tensors)
        return _compiled(_quotients)(*tensors, scale, through_half, _are_normal(scale)), scale.squeeze(-1)

    def block(rows: slice) -> tuple[Tensor, Tensor]:
        values = _values(x, token[rows], expert[rows], smooth)
        scale = values.abs().amax(-1, keepdim=True) / 127.0
        return _stored(values.div_(scale), through_half, _are_normal(scale)), scale.squeeze(-1)

    y, scale = by_row_blocks(block, token.size(0), x.size(1))
    return y, scale


def _values(x: Tensor, token: Tensor, expert: Tensor, smooth: Tensor) -> Tensor:
    return x.index_select(0, token).float() * smooth.index_select(0, expert)


def _scales(*tensors: Tensor) -> Tensor:
    return _values(*tensors).abs().amax(-1, keepdim=True) / 127.0


def _quotients(
    x: Tensor, token: Tensor, expert: Tensor, smooth: Tensor, scale: Tensor, through_half: bool, normal: bool
) -> Tensor:
    return _stored(_values(x, token, expert, smooth) / scale, through_half, normal)


def _are_normal(scale: Tensor) -> bool:
    return bool(((scale >= _SMALLEST) & (scale < torch.inf)).all())


def _stored(quotient: Tensor, through_half: bool, normal: bool) -> Tensor:
    whole = round_half_away(quotient) if through_half else quotient
    return whole.round().to(torch.int8) if normal else saturate(whole, INT8)


@functools.cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=True)

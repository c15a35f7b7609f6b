"""Copies of tokens for their experts, unchanged or quantised to int8, by a static scale or by a scale for each row."""

from __future__ import annotations

from collections.abc import Callable

import torch
from graph_quant.destination import INT8
from graph_quant.reference.blocks import by_row_blocks
from graph_quant.reference.moe.expert_smooth_quant import quantise_smoothed_rows
from graph_quant.reference.moe.gather_rows import gather_rows
from graph_quant.reference.moe.tiling import round_half_away
from graph_quant.reference.rounding import affine, saturate
from torch import Tensor

NOT_QUANTISED, STATIC, DYNAMIC = -1, 0, 1


def expand(
    x: Tensor,
    token: Tensor,
    expert: Tensor,
    scale: Tensor | None,
    offset: Tensor | None,
    quant_mode: int,
    through_half: bool = False,
) -> tuple[Tensor, Tensor]:
    """Row i is token ``token[i]`` of ``x``, for expert ``expert[i]``; the second result is the scale of each row.

    With dynamic quantisation ``scale`` holds smooth scales: one row for all experts, or one for each. Without
    quantisation it is one number per token, which is copied along. Rows without a scale get 0.
    """
    if quant_mode == DYNAMIC:
        if scale is not None and scale.size(0) != 1:
            return quantise_smoothed_rows(x, token, expert, scale, through_half, torch.compiler.is_compiling())
        y, scales = _dynamic(
            lambda rows: x[rows].float() if scale is None else x[rows].float() * scale, x.size(0), x, through_half
        )
        return gather_rows(y, token), scales.index_select(0, token)
    if quant_mode == STATIC:
        assert scale is not None
        return gather_rows(_static(x, scale, offset), token), x.new_zeros(token.shape, dtype=torch.float32)
    kept = x.new_zeros(token.shape, dtype=torch.float32) if scale is None else scale.index_select(0, token)
    return gather_rows(x, token), kept


def _static(x: Tensor, scale: Tensor, offset: Tensor | None) -> Tensor:
    if torch.compiler.is_compiling():
        return affine(x, scale, offset, INT8)
    return by_row_blocks(lambda rows: (affine(x[rows], scale, offset, INT8),), x.size(0), x.size(1))[0]


def _dynamic(values_of: Callable[[slice], Tensor], rows: int, x: Tensor, through_half: bool) -> tuple[Tensor, Tensor]:
    """``scale = max|v| / 127`` and ``y = rint(v / scale)``, a true quotient: 0/0 of a row of zeros is stored as 0."""

    def block(part: slice) -> tuple[Tensor, Tensor]:
        values = values_of(part)
        scale = values.abs().amax(-1, keepdim=True) / 127.0
        quotient = values / scale
        return saturate(round_half_away(quotient) if through_half else quotient, INT8), scale.squeeze(-1)

    if torch.compiler.is_compiling():
        return block(slice(None))
    y, scale = by_row_blocks(block, rows, x.size(1))
    return y, scale

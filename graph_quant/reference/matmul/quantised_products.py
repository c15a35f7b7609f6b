"""Rows quantised to int8 and multiplied by several matrices, as compiled code does it for all who read them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant import native
from graph_quant.dispatcher import step
from graph_quant.reference.matmul.int8_rescaled import all_rescaled
from graph_quant.reference.quant.rows import rows_quantised


def _compute(
    x: torch.Tensor,
    smooth: torch.Tensor | None,
    inverts: bool,
    weights: Sequence[torch.Tensor],
    scales: Sequence[torch.Tensor],
    biases: Sequence[torch.Tensor | None],
    dtype: torch.dtype,
) -> list[torch.Tensor]:
    y, row_scale = rows_quantised(x, smooth, inverts)
    return all_rescaled(y, list(map(native.Factor, weights, scales, biases)), row_scale, dtype)


def _shape_only(
    x: torch.Tensor,
    smooth: torch.Tensor | None,
    inverts: bool,
    weights: Sequence[torch.Tensor],
    scales: Sequence[torch.Tensor],
    biases: Sequence[torch.Tensor | None],
    dtype: torch.dtype,
) -> list[torch.Tensor]:
    del smooth, inverts, scales, biases
    return [x.new_empty((x.size(0), each.size(1)), dtype=dtype) for each in weights]


STEP = step(
    "quantised_products(Tensor x, Tensor? smooth, bool inverts, Tensor[] weights, Tensor[] scales, Tensor?[] biases,"
    " ScalarType dtype) -> Tensor[]",
    _compute,
    _shape_only,
)

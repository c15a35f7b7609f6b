"""The int8 matrix product and its dequantisation to half precision, as one operator where native code computes both."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant import native
from graph_quant.dispatcher import step
from graph_quant.reference.matmul.int8_matmul import int8_matmul, is_native


def dequantise(
    accumulator: torch.Tensor, scale: torch.Tensor, pertoken_scale: torch.Tensor | None, bias: torch.Tensor | None
) -> torch.Tensor:
    """The int32 product times the scales of its columns and rows, plus a float bias, in float32."""
    values = accumulator.float() * scale.float()
    if pertoken_scale is not None:
        values = values * pertoken_scale.unsqueeze(-1)
    return values if bias is None else values + bias.float()


def int8_matmul_dequant(
    x1: torch.Tensor,
    x2: torch.Tensor,
    scale: torch.Tensor,
    pertoken_scale: torch.Tensor | None,
    bias: torch.Tensor | None,
    dtype: torch.dtype,
) -> torch.Tensor:
    """``dequantise`` of the product of int8 tensors, rounded to ``dtype``; a bias is float."""
    vectors = [vector for vector in (scale, pertoken_scale, bias) if vector is not None]
    if not is_native(x1, x2) or any(vector.dim() != 1 for vector in vectors):
        return dequantise(int8_matmul(x1, x2), scale, pertoken_scale, bias).to(dtype)
    if type(x1) is type(x2) is torch.Tensor and not torch.compiler.is_dynamo_compiling():
        return _compute(x1, x2, scale, pertoken_scale, bias, dtype)
    return STEP(x1, x2, scale, pertoken_scale, bias, dtype)  # type: ignore[no-any-return]


def _compute(
    x1: torch.Tensor,
    x2: torch.Tensor,
    scale: torch.Tensor,
    pertoken_scale: torch.Tensor | None,
    bias: torch.Tensor | None,
    dtype: torch.dtype,
) -> torch.Tensor:
    rows, columns = x1.size(0), x2.size(1)
    fits = scale.numel() in (1, columns) and (bias is None or bias.numel() == columns)
    fits = fits and (pertoken_scale is None or pertoken_scale.numel() == rows)
    if not (fits and is_native(x1, x2)):  # compiled code may have changed strides
        return dequantise(int8_matmul(x1, x2), scale, pertoken_scale, bias).to(dtype)
    return native.int8_product(x1, x2, dtype, _floats(scale), _floats(pertoken_scale), _floats(bias))


def _floats(x: torch.Tensor | None) -> torch.Tensor | None:
    if x is None or (x.dtype is torch.float32 and x.is_contiguous()):
        return x
    return x.float().contiguous()


def _infer(x1: torch.Tensor, x2: torch.Tensor, *parameters: Any) -> torch.Tensor:
    return x1.new_empty((x1.size(0), x2.size(1)), dtype=parameters[-1])


STEP = step(
    "int8_matmul_dequant(Tensor x1, Tensor x2, Tensor scale, Tensor? pertoken_scale, Tensor? bias, ScalarType dtype)"
    " -> Tensor",
    _compute,
    _infer,
)

"""Inference attention as one opaque operator for tracers: its control flow depends on values of its operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import torch
from graph_quant.dispatcher import step
from torch import Tensor

from .fused_attention import fused_attention
from .inference_call import Attributes, Operands
from .results import lse_shape, result_dtype, result_shape

_NUMBERS = tuple(
    field.name
    for field in fields(Attributes)
    if field.name not in ("op", "input_layout", "scale") and not field.name.startswith("actual_")
)


def _unflatten_arguments(
    operands: Sequence[Tensor | None], op: str, layout: str, scale: float, numbers: Sequence[int]
) -> tuple[Operands, Attributes]:
    named = dict(zip(_NUMBERS, numbers, strict=True))
    return Operands(*operands), Attributes(op, layout, scale=scale, **named)  # type: ignore[arg-type]


def _compute(
    operands: Sequence[Tensor | None],
    lengths: Sequence[Tensor | None],
    op: str,
    layout: str,
    scale: float,
    numbers: Sequence[int],
) -> tuple[Tensor, Tensor]:
    tensors, named = _unflatten_arguments(operands, op, layout, scale, numbers)
    queries, keys, prefix = (None if values is None else values.tolist() for values in lengths)
    known = replace(named, actual_seq_lengths=queries, actual_seq_lengths_kv=keys, actual_shared_prefix_len=prefix)
    return fused_attention(tensors, known)


def _infer(
    operands: Sequence[Tensor | None],
    lengths: Sequence[Tensor | None],  # noqa: ARG001
    op: str,
    layout: str,
    scale: float,
    numbers: Sequence[int],
) -> tuple[Tensor, Tensor]:
    tensors, named = _unflatten_arguments(operands, op, layout, scale, numbers)
    out = tensors.query.new_empty(result_shape(tensors, named), dtype=result_dtype(tensors))
    return out, tensors.query.new_empty(lse_shape(tensors, named), dtype=torch.float32)


_step = step(
    "fused_attention(Tensor?[] operands, Tensor?[] lengths, str op, str layout, float scale, int[] numbers)"
    " -> (Tensor, Tensor)",
    _compute,
    _infer,
)


def fused_attention_op(
    operands: Operands, attrs: Attributes, lengths: Sequence[Tensor | None]
) -> tuple[Tensor, Tensor]:
    """``fused_attention`` with the lengths as tensors."""
    numbers = [int(getattr(attrs, name)) for name in _NUMBERS]
    tensors = [getattr(operands, field.name) for field in fields(operands)]
    return _step(  # type: ignore[no-any-return]
        tensors, list(lengths), attrs.op, attrs.input_layout, attrs.scale, numbers
    )

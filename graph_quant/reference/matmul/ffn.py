"""npu_ffn: two products with an activation between them, for all rows or for those of each expert.

========= ===========================================================================================================
form      result
========= ===========================================================================================================
float     ``h = x @ weight1 + bias1`` and ``act(h) @ weight2 + bias2``, sums in float32. bfloat16, and float16 with
          inner_precise 0, keep h in float32 and round ``act(h)`` half away from zero; fast float16 rounds h, too
antiquant the same with ``(weight + antiquant_offset) * antiquant_scale``, float16 fast, bfloat16 precise
quant     ``h = acc * deq_scale1`` of the int8 product plus bias1, ``q = sat(rint(act(h) * scale + offset))`` in
          float16, ``(q @ weight2 + bias2) * deq_scale2``. For float16 results h and act(h) are float16 and scales have
          the 19 bits of packed parameters; for bfloat16 h is float32
========= ===========================================================================================================

A float16 activation is computed in float32 here and rounded once, where the device rounds steps of it to float16.
Gated activations take the right half of h: ``left * act(right)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from graph_quant import quant_params
from graph_quant.destination import INT8
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.activation.activation_functions import FAST_GELU, GELU_TANH, RELU, SILU, apply_activation
from graph_quant.reference.half_products import multiply
from graph_quant.reference.matmul.grouped_products import ANTIQUANT, FLOAT, dequantise_weight
from graph_quant.reference.matmul.int8_matmul import int8_matmul
from graph_quant.reference.rounding import rounded_away, saturate
from torch import Tensor

QUANT = "quant"
ACTIVATIONS = {"fastgelu": FAST_GELU, "gelu": GELU_TANH, "relu": RELU, "silu": SILU}
GATES = {"geglu": GELU_TANH, "swiglu": SILU, "reglu": RELU}
PRECISE, FAST = 0, 1


@dataclass(frozen=True)
class Layer:
    """A weight of shape (k, n) with its bias and quantisation parameters."""

    weight: Tensor
    bias: Tensor | None
    deq_scale: Tensor | None
    antiquant_scale: Tensor | None
    antiquant_offset: Tensor | None

    def product(self, rows: Tensor, form: str) -> Tensor:
        """``rows`` times the weight plus the bias, in float32; int8 in int32."""
        if form == QUANT:
            total = int8_matmul(rows, self.weight)
            return total if self.bias is None else total + self.bias
        weight = self.weight
        if form == ANTIQUANT:
            assert self.antiquant_scale is not None
            weight = dequantise_weight(weight, self.antiquant_scale, self.antiquant_offset, rows.dtype)
        return multiply(rows, weight, self.bias)

    def dequantised(self, total: Tensor, dtype: torch.dtype) -> Tensor:
        """An int32 product times deq_scale, rounded once to ``dtype``."""
        assert self.deq_scale is not None
        scale = self.deq_scale
        if scale.dtype == torch.bfloat16:
            return (total.float() * scale.float()).to(dtype)
        packed = quant_params.encode(scale) if scale.dtype == torch.float32 else scale
        return (total.float() * quant_params.decode(packed)[0]).to(torch.float16)


def ffn(
    x: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    activation: str,
    bias1: Tensor | None,
    bias2: Tensor | None,
    scale: Tensor | None,
    offset: Tensor | None,
    deq_scale1: Tensor | None,
    deq_scale2: Tensor | None,
    antiquant_scale1: Tensor | None,
    antiquant_scale2: Tensor | None,
    antiquant_offset1: Tensor | None,
    antiquant_offset2: Tensor | None,
    form: str,
    tokens: Sequence[int] | None,
    precision: int,
    dtype: torch.dtype,
) -> Tensor:
    """The rows of ``x`` after both layers; ``tokens`` are the rows of each expert."""
    rows = x.reshape(-1, x.size(-1))
    first = (weight1, bias1, deq_scale1, antiquant_scale1, antiquant_offset1)
    second = (weight2, bias2, deq_scale2, antiquant_scale2, antiquant_offset2)
    if tokens is None:
        result = _both(rows, Layer(*first), Layer(*second), activation, scale, offset, form, precision, dtype)
        return result.reshape(*x.shape[:-1], weight2.size(-1))
    parts, start = [], 0
    for expert, count in enumerate(tokens):
        one, other = (
            Layer(*(None if parameter is None else parameter[expert] for parameter in layer))  # type: ignore[arg-type]
            for layer in (first, second)
        )
        own, shift = (None if parameter is None else parameter[expert] for parameter in (scale, offset))
        parts.append(_both(rows[start : start + count], one, other, activation, own, shift, form, precision, dtype))
        start += count
    return torch.cat(parts).reshape(*x.shape[:-1], weight2.size(-1))


def _both(
    rows: Tensor,
    one: Layer,
    other: Layer,
    activation: str,
    scale: Tensor | None,
    offset: Tensor | None,
    form: str,
    precision: int,
    dtype: torch.dtype,
) -> Tensor:
    if form == QUANT:
        assert scale is not None
        assert offset is not None
        hidden = _activated(one.dequantised(one.product(rows, form), torch.float32).float(), activation)
        halves = hidden.half() * scale.half() + offset.half()
        return other.dequantised(other.product(saturate(halves.float(), INT8), form), dtype)
    hidden = one.product(rows, form)
    if precision == FAST:
        hidden = _activated(hidden.half().float(), activation).half()
    else:
        hidden = rounded_away(_activated(hidden, activation), dtype)
    return other.product(hidden, form).to(dtype)


def _activated(values: Tensor, activation: str) -> Tensor:
    if activation in ACTIVATIONS:
        return apply_activation(values, ACTIVATIONS[activation])
    left, right = values.chunk(2, -1)
    return left * apply_activation(right, GATES[activation])


@kernel("FFN", flops=CONTRACTION)
def ffn_node(
    x: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    expert_tokens: Tensor | None = None,
    bias1: Tensor | None = None,
    bias2: Tensor | None = None,
    scale: Tensor | None = None,
    offset: Tensor | None = None,
    deq_scale1: Tensor | None = None,
    deq_scale2: Tensor | None = None,
    antiquant_scale1: Tensor | None = None,
    antiquant_scale2: Tensor | None = None,
    antiquant_offset1: Tensor | None = None,
    antiquant_offset2: Tensor | None = None,
    *,
    activation: str,
    inner_precise: int = PRECISE,
    output_dtype: int = -1,
    tokens_index_flag: bool = False,
) -> Tensor:
    form = QUANT if x.dtype == torch.int8 else (FLOAT if weight1.dtype == x.dtype else ANTIQUANT)
    tokens = None if expert_tokens is None else _counts(expert_tokens, tokens_index_flag)
    first, second = (
        scales if scales is None or scales.dtype != torch.uint64 else scales.view(torch.int64)
        for scales in (deq_scale1, deq_scale2)
    )
    dtype = x.dtype if form != QUANT else (torch.bfloat16 if output_dtype == 1 else torch.float16)
    return ffn(
        x,
        weight1,
        weight2,
        activation,
        bias1,
        bias2,
        scale,
        offset,
        first,
        second,
        antiquant_scale1,
        antiquant_scale2,
        antiquant_offset1,
        antiquant_offset2,
        form,
        tokens,
        precision_of(form, x.dtype, inner_precise),
        dtype,
    )


def precision_of(form: str, dtype: torch.dtype, inner_precise: int) -> int:
    """How values between the products are rounded: float16 may choose, and is always FAST with integer weights."""
    if dtype != torch.float16:
        return PRECISE
    return FAST if form == ANTIQUANT else inner_precise


def _counts(tokens: Tensor, are_ends: bool) -> list[int]:
    listed = [int(count) for count in tokens]
    return [end - start for start, end in zip([0, *listed], listed, strict=False)] if are_ends else listed

"""The product of one group of npu_grouped_matmul: its rows times its weight.

========= ==================== ===================================================================================
form      x, weight            result
========= ==================== ===================================================================================
float     alike, floating      ``x @ weight + bias``, summed in float32
antiquant floating, int8/int4  the same with ``(weight + antiquant_offset) * antiquant_scale``, which float16 rounds
                               after each of the two operations and bfloat16 once
a8w8      int8, int8           ``acc = x @ weight`` in int32 (+ int32 bias); int8 by the packed parameter; else
                               ``acc * scale (* per_token_scale) (+ bfloat16 bias)``, the activation, one rounding
a4w4      int4, int4           ``float16(acc * scale)`` of each group of k, added in float16; ``* per_token_scale``
a8w4      int8, int4           x as ``16 * high + low + 8``, both halves int4: the two products as in a4w4, then
                               ``(16 * high + low + bias (+ offset * sum(x))) * per_token_scale``
========= ==================== ===================================================================================

a8w4 with one scale per column and many rows per expert uses another kernel: ``acc * scale * per_token_scale`` without
the bias; for bfloat16 results the scale is rounded towards minus infinity to bfloat16.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from graph_quant import int4, native, quant_params
from graph_quant.destination import INT4
from graph_quant.reference.activation.activation_functions import apply_activation
from graph_quant.reference.half_products import multiply
from graph_quant.reference.matmul.int8_matmul import int8_matmul
from graph_quant.reference.matmul.requantise import requantise
from torch import Tensor

FLOAT, ANTIQUANT, A8W8, A8W4, A4W4 = "float", "antiquant", "a8w8", "a8w4", "a4w4"
# On Ascend 950 bfloat16 weights are rounded after each operation too, and ``grouped_narrow`` has what is quantised.
ANTIQUANT_950, QUANTISED_950 = "antiquant 950", "quantised 950"

# The ratio of columns to rows of an expert above which x is split into int4 halves.
_SPLIT_ABOVE = 4


@dataclass(frozen=True)
class Weight:
    """A weight of shape (k, n) with its bias and parameters. int32 holds packed int4, along k or along n."""

    elements: Tensor
    bias: Tensor | None = None
    scale: Tensor | None = None
    offset: Tensor | None = None
    antiquant_scale: Tensor | None = None
    antiquant_offset: Tensor | None = None
    packed_along_k: bool = False

    @property
    def integers(self) -> Tensor:
        """The unpacked elements."""
        if self.elements.dtype != torch.int32:
            return self.elements
        return int4.unpack(self.elements.mT).mT if self.packed_along_k else int4.unpack(self.elements)

    @property
    def columns(self) -> int:
        """The number of elements along n."""
        is_packed = self.elements.dtype == torch.int32 and not self.packed_along_k
        return self.elements.size(-1) * (INT4.packing if is_packed else 1)

    def blocks(self, count: int) -> Iterator[Tensor]:
        """The unpacked elements of ``count`` groups of k; unpacked one after the other, they stay in the cache."""
        blocks: Tensor | None = None
        if self.elements.dtype != torch.int32 or self.elements.size(0) % count:
            blocks = self.integers
        for block in (self.elements if blocks is None else blocks).chunk(count):
            yield block if blocks is not None else dataclasses.replace(self, elements=block).integers


def product(
    form: str, x: Tensor, weight: Weight, tokens: Tensor | None, dtype: torch.dtype, act_type: int, rows: int
) -> Tensor:
    """Rows ``x`` times ``weight``. ``tokens`` are per-token scales, ``rows`` the expected number of rows per expert."""
    if form == A8W8:
        return _a8w8(x, weight, tokens, dtype, act_type)
    if form == A4W4:
        values = sum_over_groups(int4.unpack(x) if x.dtype == torch.int32 else x, weight)
        return (values if tokens is None else values * tokens).to(dtype)
    if form == A8W4:
        assert tokens is not None
        return _a8w4(x, weight, tokens, dtype, rows)
    elements = weight.elements
    if form in (ANTIQUANT, ANTIQUANT_950):
        assert weight.antiquant_scale is not None
        parameters = weight.antiquant_scale, weight.antiquant_offset
        elements = dequantise_weight(weight.integers, *parameters, x.dtype, rounds_twice=form == ANTIQUANT_950)
    return multiply(x, elements, weight.bias, dtype)


def dequantise_weight(
    integers: Tensor, scale: Tensor, offset: Tensor | None, dtype: torch.dtype, *, rounds_twice: bool = False
) -> Tensor:
    """The integers of a weight, dequantised: ``(integers + offset) * scale``."""
    between = dtype if dtype == torch.float16 or rounds_twice else torch.float32
    values = integers.to(between)
    if scale.dim() == 2:
        # One row of scales for each group of k.
        scale = _repeat_groups(scale, values.size(0))
        offset = None if offset is None else _repeat_groups(offset, values.size(0))
    values = values if offset is None else values + offset.to(between)
    return (values * scale.to(between)).to(dtype)


def _repeat_groups(parameters: Tensor, depth: int) -> Tensor:
    return parameters.repeat_interleave(depth // parameters.size(0), 0)


def _a8w8(x: Tensor, weight: Weight, tokens: Tensor | None, dtype: torch.dtype, act_type: int) -> Tensor:
    accumulator = int8_matmul(x, weight.elements)
    bias = weight.bias
    if bias is not None and bias.dtype == torch.int32:
        accumulator, bias = accumulator + bias, None
    if dtype == torch.int32:
        return accumulator
    assert weight.scale is not None
    if dtype == torch.int8:
        return requantise(accumulator, weight.scale)
    values = accumulator.float() * weight.scale.float()
    if tokens is not None:
        values = values * tokens
    return apply_activation(values if bias is None else values + bias.float(), act_type).to(dtype)


def sum_over_groups(x: Tensor, weight: Weight) -> Tensor:
    """The sum of ``float16(acc * scale)`` over the groups of k, added in float16."""
    assert weight.scale is not None
    scales = quant_params.decode(weight.scale.reshape(-1, weight.columns))[0]
    if (
        type(x) is type(weight.elements) is Tensor
        and not weight.packed_along_k
        and native.can_multiply_int4(x, weight.elements, scales.size(0))
    ):
        parts = native.int4_product(x, weight.elements, scales.size(0)).float()
        return functools.reduce(torch.add, parts.mul_(scales.unsqueeze(1)).half()).float()
    depth = x.size(-1) // scales.size(0)
    total: Tensor | None = None
    for group, (scale, integers) in enumerate(zip(scales, weight.blocks(scales.size(0)), strict=True)):
        rows = slice(group * depth, (group + 1) * depth)
        part = (int8_matmul(x[:, rows], integers).float() * scale).half()
        total = part if total is None else total + part
    assert total is not None
    return total.float()


def _a8w4(x: Tensor, weight: Weight, tokens: Tensor, dtype: torch.dtype, rows: int) -> Tensor:
    assert weight.scale is not None
    per_channel = weight.scale.numel() == weight.columns
    if per_channel and weight.offset is None and rows and weight.columns // rows <= _SPLIT_ABOVE:
        scale = (weight.scale & 0xFFFFFFFF).to(torch.int32).view(torch.float32).reshape(-1)
        if dtype == torch.bfloat16:
            scale = _floored(scale)
        return (int8_matmul(x, weight.integers).float() * scale * tokens).to(dtype)
    return (split_product(x, weight) * tokens).to(dtype)


def split_product(x: Tensor, weight: Weight) -> Tensor:
    """int8 rows times an int4 weight: x is split into two int4 halves; the bias compensates for their offset of 8."""
    high, low = sum_over_groups(torch.cat((x >> 4, (x & 0x0F) - 8)), weight).chunk(2)
    assert weight.bias is not None
    values = low + high * 16.0 + weight.bias
    if weight.offset is not None:
        values = x.float().sum(-1, keepdim=True) * weight.offset.reshape(-1) + values
    return values


def _floored(scale: Tensor) -> Tensor:
    """``scale`` as bfloat16, rounded towards minus infinity."""
    bits = scale.view(torch.int32)
    return torch.where(bits < 0, bits + 0xFFFF, bits).bitwise_and(-0x10000).view(torch.float32)

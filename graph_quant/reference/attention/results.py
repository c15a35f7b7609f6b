"""Shapes and dtypes of the results of inference attention operators. Sizes may be symbolic."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .inference_call import Attributes, Operands


def query_sizes(query: Tensor, attrs: Attributes) -> tuple[Any, Any, Any, Any]:
    """Batch, heads, tokens and channels of query."""
    shape = tuple(query.shape)
    layout = attrs.layout
    if layout == "BSH":
        return shape[0], attrs.num_heads, shape[1], shape[2] // attrs.num_heads
    order = {"BSND": (0, 2, 1, 3), "BNSD": (0, 1, 2, 3), "TND": (1, 0, 2), "NTD": (0, 1, 2), "NSD": (0, 1, 2)}[layout]
    sizes = tuple(shape[dim] for dim in order)
    return sizes if len(sizes) == 4 else (1, *sizes)  # type: ignore[return-value]


def value_channels(operands: Operands, attrs: Attributes) -> Any:
    """Channels per head of value, and so of the result."""
    value = operands.value
    if value.dim() == 5:
        return value.size(2) * value.size(4)
    is_flat = value.dim() == 3 and (operands.block_table is not None or attrs.layout == "BSH")
    channels = value.size(-1) * (8 if value.dtype == torch.int32 else 1)
    return channels // attrs.kv_heads if is_flat else channels


def result_dtype(operands: Operands) -> torch.dtype:
    """int8 where the result is quantised, else the float type of query."""
    if operands.quant_scale2 is not None:
        return torch.int8
    if operands.query.dtype != torch.int8:
        return operands.query.dtype
    return torch.float16 if operands.query_rope is None else operands.query_rope.dtype


def result_shape(operands: Operands, attrs: Attributes) -> tuple[Any, ...]:
    """The shape of the result in its layout."""
    batch, heads, tokens, _ = query_sizes(operands.query, attrs)
    channels = value_channels(operands, attrs)
    return {
        "BSH": (batch, tokens, heads * channels),
        "BSND": (batch, tokens, heads, channels),
        "BNSD": (batch, heads, tokens, channels),
        "NBSD": (heads, batch, tokens, channels),
        "TND": (tokens, heads, channels),
        "NTD": (heads, tokens, channels),
        "NSD": (heads, tokens, channels),
    }[attrs.out_layout]


def lse_shape(operands: Operands, attrs: Attributes) -> tuple[Any, ...]:
    """The shape of the log-sum-exp, which is empty unless ``softmax_lse_flag``."""
    if not attrs.softmax_lse_flag:
        return (0,)
    batch, heads, tokens, _ = query_sizes(operands.query, attrs)
    return (tokens, heads, 1) if attrs.is_packed else (batch, heads, tokens, 1)

"""The operator calls of a quantised linear, made on meta tensors: the operators' own records refuse them, or not.

The calls are those of vllm-ascend: weights transposed and in FRACTAL_NZ, scales and bias in the model's dtype, except
where its loader allocates another.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..formats import NZ, give_format
from ..meta.operator import RECORDS, full
from .layers import QuantisedLayer

_ROWS = 16


def call(name: str, *args: Any, **kwargs: Any) -> None:
    """Check a call by the operator's record.

    Raises:
        Refusal: The record refuses it.
    """
    record = RECORDS[full(name)]
    record.plan(record.bind(args, kwargs))


def _meta(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def check_linear(layer: QuantisedLayer, dtype: torch.dtype, *, nz: bool) -> None:
    """Make the calls of one card's part of a linear.

    Raises:
        Refusal: An operator refuses one.
    """
    n, k = layer.outputs, layer.inputs
    x, bias = _meta(_ROWS, k, dtype=dtype), _meta(n, dtype=dtype) if "bias" in layer.parts else None
    if layer.activation_bits == 16 or (layer.bits, layer.activation_bits) == (4, 8):
        _weight_only(layer, x, bias, nz)
    elif layer.bits == layer.activation_bits == 4:
        scale, tokens = _meta(n, dtype=torch.float32), _meta(_ROWS, dtype=torch.float32)
        words, weight = _meta(_ROWS, k // 8, dtype=torch.int32), _weight(k, n // 8, torch.int32, nz)
        call("npu_quant_matmul", words, weight, scale, pertoken_scale=tokens, output_dtype=dtype)
    elif layer.is_static:
        step, offset = _meta(k, dtype=dtype), _meta(k, dtype=dtype)
        call("npu_quantize", x, step, offset, torch.qint8, -1, False)
        scale = _meta(n, dtype=torch.int64 if dtype == torch.float16 else torch.float32)
        integers, weight = _meta(_ROWS, k, dtype=torch.int8), _weight(k, n, torch.int8, nz)
        call("npu_quant_matmul", integers, weight, scale, bias=_meta(n, dtype=torch.int32), output_dtype=dtype)
    else:
        call("npu_dynamic_quant", x)
        scale, tokens = _meta(n, dtype=dtype), _meta(_ROWS, dtype=torch.float32)
        integers, weight = _meta(_ROWS, k, dtype=torch.int8), _weight(k, n, torch.int8, nz)
        call("npu_quant_matmul", integers, weight, scale, pertoken_scale=tokens, bias=bias, output_dtype=dtype)


def _weight_only(layer: QuantisedLayer, x: Tensor, bias: Tensor | None, nz: bool) -> None:
    n, k = layer.outputs, layer.inputs
    shape = (-(-k // layer.group), n) if layer.group else (n,)
    scale = _meta(*shape, dtype=x.dtype)
    weight = _weight(k, n, torch.int8, nz) if layer.bits == 8 else _weight(k, n // 8, torch.int32, nz)
    offset = _meta(*shape, dtype=x.dtype) if layer.bits == 8 else None
    call(
        "npu_weight_quant_batchmatmul",
        x,
        weight,
        scale,
        antiquant_offset=offset,
        bias=bias,
        antiquant_group_size=layer.group,
    )


def _weight(rows: int, columns: int, dtype: torch.dtype, nz: bool) -> Tensor:
    weight = _meta(rows, columns, dtype=dtype)
    if nz:
        give_format(weight, NZ)
    return weight


def check_attention(heads: int, key_heads: int, size: int, dtype: torch.dtype) -> None:
    """Make the calls of attention: of a prompt, and of a step with a paged cache.

    Raises:
        Refusal: An operator refuses one.
    """
    query, key = _meta(1, heads, _ROWS, size, dtype=dtype), _meta(1, key_heads, _ROWS, size, dtype=dtype)
    counts = {"num_heads": heads, "num_key_value_heads": key_heads, "scale": 1.0}
    call("npu_fused_infer_attention_score", query, key, key, input_layout="BNSD", **counts)
    cache = _meta(4, 128, key_heads * size, dtype=dtype)
    step = _meta(1, 1, heads * size, dtype=dtype)
    call(
        "npu_fused_infer_attention_score", step, cache, cache, input_layout="BSH", block_size=128,
        block_table=_meta(1, 4, dtype=torch.int32), actual_seq_lengths_kv=[64], **counts,
    )  # fmt: skip

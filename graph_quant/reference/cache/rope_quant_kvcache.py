"""npu_rope_quant_kvcache and npu_dequant_rope_quant_kvcache: RoPE, quantisation and cache write for a fused QKV.

int32 input is dequantised first, in float32: an int32 bias is added before the scales, any other after. Queries and
keys are rotated by halves, with float16 cosines in float16 and a rounding after each operation, else in float32. Keys
and values are divided by their scales, offsets are added, and the int8 are written to the caches: in mode
``contiguous`` each batch from a position of its sequence on, in mode ``page`` each token to a slot. Values, and keys
beside bfloat16 cosines, are quantised before they are rounded to the dtype of the results.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.destination import INT8
from graph_quant.ge import kernel
from graph_quant.reference.cache.paged_cache import NORM, write_tokens
from graph_quant.reference.index_checks import checked_index
from graph_quant.reference.rope.rotation import rotate_pairs
from graph_quant.reference.rounding import affine
from torch import Tensor

OP = "npu_dequant_rope_quant_kvcache"
CONTIGUOUS, PAGE = "contiguous", "page"
MODES = (CONTIGUOUS, PAGE)


def _dequantise(x: Tensor, weight: Tensor, activation: Tensor | None, bias: Tensor | None) -> Tensor:
    if bias is not None and bias.dtype == torch.int32:
        x, bias = x + bias, None
    values = x.float() * weight.reshape(-1)
    if activation is not None:
        values = values * activation.reshape(*x.shape[:-1], 1)
    return values if bias is None else values + bias.float()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The heads of ``x`` rotated; all heads of a token share its cosines."""
    dtype = torch.float16 if cos.dtype == torch.float16 else torch.float32
    wide, cosines, sines = x.to(dtype), cos.to(dtype), sin.to(dtype)
    return wide * cosines + rotate_pairs(wide) * sines


def _slots(op: str, indices: Tensor, cache: Tensor, length: int, mode: str) -> Tensor:
    """The slots of the tokens in a cache whose first two dimensions are flattened."""
    if mode == PAGE:
        return indices
    first = checked_index(op, "indices", indices, 0, cache.size(1) - length + 1)
    sequences = torch.arange(indices.size(0), device=indices.device) * cache.size(1)
    return ((first + sequences)[:, None] + torch.arange(length, device=indices.device)).flatten()


def _rotate_and_store(
    op: str,
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    indices: Tensor,
    scale_k: Tensor,
    scale_v: Tensor,
    size_splits: Sequence[int],
    offset_k: Tensor | None,
    offset_v: Tensor | None,
    kv_output: bool,
    cache_mode: str,
    **_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys, values and the caches, which are written in place although the schema does not say so."""
    tokens, heads = x.shape[:-1], tuple(k_cache.shape[2:])
    q, k, v = (part.unflatten(-1, (-1, heads[1])) for part in x.split(list(size_splits), -1))
    cosines, sines = (angles.reshape(*tokens, 1, heads[1]) for angles in (cos, sin))
    q, k = _rotate(q, cosines, sines), _rotate(k, cosines, sines)
    slots = _slots(op, indices, k_cache, tokens[1] if len(tokens) > 1 else 1, cache_mode)
    for cache, rows, scale, offset in ((k_cache, k, scale_k, offset_k), (v_cache, v, scale_v, offset_v)):
        shift = None if offset is None else offset.reshape(heads)
        integers = affine(rows.reshape(-1, *heads), scale.reshape(heads), shift, INT8, divide=True)
        write_tokens(op, "indices", cache, integers, slots, NORM)
    outputs = [rows.to(cos.dtype) if kv_output else rows.new_empty(0, dtype=cos.dtype) for rows in (k, v)]
    return q.to(cos.dtype), outputs[0], outputs[1], k_cache, v_cache


rope_quant_kvcache = functools.partial(_rotate_and_store, "npu_rope_quant_kvcache")


def dequant_rope_quant_kvcache(
    x: Tensor, weight_scale: Tensor | None, activation_scale: Tensor | None, bias: Tensor | None, **others: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """``rope_quant_kvcache`` of dequantised int32."""
    values = x if weight_scale is None else _dequantise(x, weight_scale, activation_scale, bias)
    return _rotate_and_store(OP, values, **others)


@kernel("DequantRopeQuantKvcache", flops=10, may_alias=True)
def dequant_rope_quant_kvcache_node(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    indices: Tensor,
    scale_k: Tensor,
    scale_v: Tensor,
    offset_k: Tensor | None = None,
    offset_v: Tensor | None = None,
    weight_scale: Tensor | None = None,
    activation_scale: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    size_splits: Sequence[int],
    quant_mode: str = "static",
    layout: str = "BSND",
    kv_output: bool = False,
    cache_mode: str = CONTIGUOUS,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    if (quant_mode, layout) != ("static", "BSND"):
        raise NotImplementedError(f"DequantRopeQuantKvcache: no host kernel for {quant_mode} quantisation of {layout}")
    return dequant_rope_quant_kvcache(
        x, weight_scale, activation_scale, bias,
        cos=cos, sin=sin, k_cache=k_cache, v_cache=v_cache, indices=indices, scale_k=scale_k, scale_v=scale_v,
        size_splits=size_splits, offset_k=offset_k, offset_v=offset_v, kv_output=kv_output, cache_mode=cache_mode,
    )  # fmt: skip

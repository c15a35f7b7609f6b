"""npu_kv_rmsnorm_rope_cache and its second version: computes and writes the KV-cache entries of latent attention.

Without v, kv is the latent part, which gets an RMS norm, and the rope part, whose adjacent channels form pairs and end
half the width apart. With v, all of kv is normalised, its first channels are rotated, and v is stored unchanged.
Everything is computed in float32 and rounded once to the dtype of the cache, for int8 after scale and offset. The norm
divides by the root instead of multiplying by its reciprocal.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.destination import INT8
from graph_quant.ge import kernel
from graph_quant.reference.attention.cache_slots import write_rows
from graph_quant.reference.index_checks import checked_index
from graph_quant.reference.norm.rms import divide_by_rms
from graph_quant.reference.opaque import opaque
from graph_quant.reference.rope.rotation import rotate_interleaved
from graph_quant.reference.rounding import saturate
from torch import Tensor

OP = "npu_kv_rmsnorm_rope_cache"
NORM, BY_SLOT, BY_BLOCK = "Norm", ("PA", "PA_BNSD", "PA_NZ"), ("PA_BLK_BNSD", "PA_BLK_NZ")
MODES = (NORM, *BY_SLOT, *BY_BLOCK)


def compute_entries(
    kv: Tensor, gamma: Tensor, cos: Tensor, sin: Tensor, v: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor]:
    """The float32 values of the two caches, (B, 1, S, channels) each."""
    wide, width = kv.float(), gamma.size(0)
    latent = wide[..., :width]
    normed = divide_by_rms(latent, epsilon) * gamma.float()
    rope = wide[..., width:] if v is None else normed[..., : cos.size(-1)]
    embedded = rotate_interleaved(rope, cos.float(), sin.float())
    if v is None:
        return embedded, normed
    return torch.cat([embedded, normed[..., cos.size(-1) :]], -1), v.float()


def to_cache_dtype(values: Tensor, scale: Tensor | None, offset: Tensor | None, dtype: torch.dtype) -> Tensor:
    """``values`` in the dtype of their cache, quantised for int8."""
    if dtype != torch.int8:
        return values.to(dtype)
    scaled = values if scale is None else values * scale.reshape(-1)
    return saturate(scaled if offset is None else scaled + offset.reshape(-1), INT8)


def write_entries(cache: Tensor, values: Tensor, index: Tensor, mode: str) -> Tensor:
    """Writes ``values`` (B, 1, S, channels) into ``cache`` at ``index`` in place; negative indices are skipped."""
    if torch.compiler.is_compiling():
        write_kv_entries(cache, values, index, mode)
        return cache
    if not cache.is_contiguous():
        return cache.copy_(write_entries(cache.contiguous(), values, index, mode))
    batches, _, length, width = values.shape
    rows = values.reshape(-1, width)
    if mode == NORM:
        slots = checked_index(OP, "index", index, -1, cache.size(2))
        flat = torch.where(slots < 0, slots, slots + torch.arange(batches)[:, None] * cache.size(2))
        write_rows(cache.view(batches * cache.size(2), 1, 1, width), rows, flat.reshape(-1), mode)
        return cache
    size = cache.size(1)
    slots = checked_index(OP, "index", index, -1, cache.size(0) * size)
    if mode in BY_BLOCK:
        position = torch.arange(length)
        pages = slots.reshape(batches, -1)[:, position // size]
        slots = torch.where(pages < 0, pages, pages // size * size + position % size)
    write_rows(cache, rows, slots.reshape(-1), mode)
    return cache


@opaque(lambda *_: None, writes=("cache",))
def write_kv_entries(cache: Tensor, values: Tensor, index: Tensor, cache_mode: str) -> None:
    """``write_entries`` to tracers; opaque because the indices decide which are written."""
    write_entries(cache, values, index, cache_mode)


def kv_rmsnorm_rope_cache_v2(
    kv: Tensor,
    gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    k_cache: Tensor,
    ckv_cache: Tensor,
    k_rope_scale: Tensor | None,
    c_kv_scale: Tensor | None,
    k_rope_offset: Tensor | None,
    c_kv_offset: Tensor | None,
    v: Tensor | None,
    epsilon: float,
    cache_mode: str,
    is_output_kv: bool,
) -> tuple[Tensor, Tensor]:
    """Writes both caches in place and returns the entries in the dtype of kv, or zeros without is_output_kv."""
    k, c = compute_entries(kv, gamma, cos, sin, v, epsilon)
    if kv.numel():
        write_entries(k_cache, to_cache_dtype(k, k_rope_scale, k_rope_offset, k_cache.dtype), index, cache_mode)
        write_entries(ckv_cache, to_cache_dtype(c, c_kv_scale, c_kv_offset, ckv_cache.dtype), index, cache_mode)
    outputs = [entry.to(kv.dtype) if is_output_kv else torch.zeros_like(entry, dtype=kv.dtype) for entry in (k, c)]
    return outputs[0], outputs[1]


@kernel("KvRmsNormRopeCache", flops=10, may_alias=True, chips=A2_A3_950)
def kv_rmsnorm_rope_cache_node(
    kv: Tensor,
    gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    k_cache: Tensor,
    ckv_cache: Tensor,
    k_rope_scale: Tensor | None = None,
    c_kv_scale: Tensor | None = None,
    k_rope_offset: Tensor | None = None,
    c_kv_offset: Tensor | None = None,
    v: Tensor | None = None,
    *,
    epsilon: float = 1e-5,
    cache_mode: str = NORM,
    is_output_kv: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    entries = (kv, gamma, cos, sin, index, k_cache, ckv_cache)
    quantisation = (k_rope_scale, c_kv_scale, k_rope_offset, c_kv_offset)
    outputs = kv_rmsnorm_rope_cache_v2(*entries, *quantisation, v, epsilon, cache_mode, is_output_kv)
    return k_cache, ckv_cache, *outputs


@functools.wraps(kv_rmsnorm_rope_cache_v2)
def kv_rmsnorm_rope_cache(**arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The caches, which the device writes in place although the schema does not say so, and the results of v2."""
    outputs = kv_rmsnorm_rope_cache_v2(**arguments)
    return arguments["k_cache"], arguments["ckv_cache"], *outputs


@functools.wraps(kv_rmsnorm_rope_cache_v2)
def kv_rmsnorm_rope_cache_v2_functional(**arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The results of v2 and updated copies of the caches."""
    caches = {name: arguments[name].clone() for name in ("k_cache", "ckv_cache")}
    outputs = kv_rmsnorm_rope_cache_v2(**{**arguments, **caches})
    return *outputs, caches["k_cache"], caches["ckv_cache"]

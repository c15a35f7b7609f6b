"""npu_kv_rmsnorm_rope_cache and its second version: what a latent attention keeps of a token, computed and written.

Without v, kv is the latent part, which is normalised, and the rope part, whose neighbours are pairs and come back half
the width apart. With v, all of kv is normalised, its first channels are rotated, and v is kept as it is. All of it is
float32 and rounded once, to the dtype of a cache: to int8 after a product with its scale and a sum with its offset. The
norm divides by the root, and does not multiply by its reciprocal.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
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


def kept(
    kv: Tensor, gamma: Tensor, cos: Tensor, sin: Tensor, v: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor]:
    """The float32 values for the two caches, (B, 1, S, channels) each."""
    wide, width = kv.float(), gamma.size(0)
    latent = wide[..., :width]
    normed = divide_by_rms(latent, epsilon) * gamma.float()
    turn = wide[..., width:] if v is None else normed[..., : cos.size(-1)]
    embedded = rotate_interleaved(turn, cos.float(), sin.float())
    if v is None:
        return embedded, normed
    return torch.cat([embedded, normed[..., cos.size(-1) :]], -1), v.float()


def stored(values: Tensor, scale: Tensor | None, offset: Tensor | None, dtype: torch.dtype) -> Tensor:
    """``values`` in the dtype of their cache."""
    if dtype != torch.int8:
        return values.to(dtype)
    scaled = values if scale is None else values * scale.reshape(-1)
    return saturate(scaled if offset is None else scaled + offset.reshape(-1), INT8)


def written(cache: Tensor, values: Tensor, index: Tensor, mode: str) -> Tensor:
    """``cache`` with ``values`` (B, 1, S, channels) where ``index`` says, written in place; below 0 is nowhere."""
    if torch.compiler.is_compiling():
        return cache.copy_(kv_cache_rows(cache, values, index, mode))
    if not cache.is_contiguous():
        return cache.copy_(written(cache.contiguous(), values, index, mode))
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
        place = torch.arange(length)
        pages = slots.reshape(batches, -1)[:, place // size]
        slots = torch.where(pages < 0, pages, pages // size * size + place % size)
    write_rows(cache, rows, slots.reshape(-1), mode)
    return cache


def _like_cache(cache: Tensor, values: Tensor, index: Tensor, mode: str) -> Tensor:  # noqa: ARG001
    return torch.empty_like(cache)


@opaque(_like_cache)
def kv_cache_rows(cache: Tensor, values: Tensor, index: Tensor, mode: str) -> Tensor:
    """A copy of ``cache`` with ``values`` in it: which of them are written is known only with the data."""
    return written(cache.clone(), values, index, mode)


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
    """Writes both caches in place and gives what was kept in kv's dtype; zeros where it is not asked for."""
    k, c = kept(kv, gamma, cos, sin, v, epsilon)
    if kv.numel():
        written(k_cache, stored(k, k_rope_scale, k_rope_offset, k_cache.dtype), index, cache_mode)
        written(ckv_cache, stored(c, c_kv_scale, c_kv_offset, ckv_cache.dtype), index, cache_mode)
    outputs = [each.to(kv.dtype) if is_output_kv else torch.zeros_like(each, dtype=kv.dtype) for each in (k, c)]
    return outputs[0], outputs[1]


@kernel("KvRmsNormRopeCache", flops=10, may_alias=True)
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
    outputs = kv_rmsnorm_rope_cache_v2(
        kv,
        gamma,
        cos,
        sin,
        index,
        k_cache,
        ckv_cache,
        k_rope_scale,
        c_kv_scale,
        k_rope_offset,
        c_kv_offset,
        v,
        epsilon,
        cache_mode,
        is_output_kv,
    )
    return k_cache, ckv_cache, *outputs


@functools.wraps(kv_rmsnorm_rope_cache_v2)
def kv_rmsnorm_rope_cache(**given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same, with the caches, which the device writes in place though the schema does not say so, in front."""
    outputs = kv_rmsnorm_rope_cache_v2(**given)
    return given["k_cache"], given["ckv_cache"], *outputs


@functools.wraps(kv_rmsnorm_rope_cache_v2)
def kv_rmsnorm_rope_cache_v2_functional(**given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What was kept, and copies of the caches with it."""
    caches = {name: given[name].clone() for name in ("k_cache", "ckv_cache")}
    outputs = kv_rmsnorm_rope_cache_v2(**{**given, **caches})
    return *outputs, caches["k_cache"], caches["ckv_cache"]

"""The cache writes of npu_mla_prolog, and its GE nodes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.opaque import opaque
from torch import Tensor

from .cache_slots import compute_slots, write_rows
from .mla_prolog import Inputs, Prolog, compute_prolog


def write_caches(
    op: str,
    tensors: Sequence[Tensor | None],
    numbers: Sequence[float],
    caches: tuple[Tensor, Tensor],
    cache_index: Tensor | None,
    ends: Tensor | None,
    cache_mode: str,
) -> Prolog:
    """Computes all results and writes the rows of both caches in place."""
    inputs = Inputs(*tensors, *numbers)  # type: ignore[arg-type]
    kv_cache, kr_cache = caches
    is_full = inputs.token_x.dtype == torch.int8
    computed = compute_prolog(inputs, kv_cache.dtype == torch.int8, is_full and kv_cache.dtype == torch.int8)
    tokens = inputs.token_x.shape[:-1]
    if inputs.token_x.numel() and kv_cache.numel():
        slots = compute_slots(op, cache_mode, kv_cache, cache_index, tokens, ends)
        write_rows(kv_cache, computed.latent_rows, slots, cache_mode)
        write_rows(kr_cache, computed.rope_rows, slots, cache_mode)
    return computed


def reshape_results(
    computed: Prolog, x: Tensor, query_norm_flag: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Query, its rope part and scale, the norm of query and its scale, in the shapes of the third version."""
    leading = x.shape[:-1]
    norm, norm_scale = computed.query_norm.reshape(*leading, -1), computed.norm_scale
    if not query_norm_flag:
        norm, norm_scale = norm.new_empty(0), norm_scale.new_empty(0)
    return (
        computed.query.reshape(*leading, *computed.query.shape[1:]),
        computed.query_rope.reshape(*leading, *computed.query_rope.shape[1:]),
        computed.query_scale,
        norm,
        norm_scale,
    )


def _infer(
    tensors: Sequence[Tensor | None],
    numbers: Sequence[float],  # noqa: ARG001
    kv_cache: Tensor,
    kr_cache: Tensor,
    cache_index: Tensor | None,  # noqa: ARG001
    ends: Tensor | None,  # noqa: ARG001
    cache_mode: str,  # noqa: ARG001
    query_norm_flag: bool,
) -> list[Tensor]:
    x, _, uq, uk, _, gamma = (tensor for tensor in tensors[:6] if tensor is not None)
    sin = tensors[7]
    assert sin is not None
    leading, heads = x.shape[:-1], uk.size(0)
    rows = x.numel() // x.size(-1)
    quantised = x.dtype == torch.int8 and kv_cache.dtype == torch.int8
    norm_scales = (rows, 1) if query_norm_flag and uq.dtype == torch.int8 else (0,)
    return [
        x.new_empty((*leading, heads, uk.size(2)), dtype=torch.int8 if quantised else torch.bfloat16),
        x.new_empty((*leading, heads, sin.size(-1)), dtype=torch.bfloat16),
        torch.empty_like(kv_cache),
        torch.empty_like(kr_cache),
        x.new_empty((rows, heads, 1) if quantised else (0,), dtype=torch.float32),
        x.new_empty((*leading, gamma.size(0)) if query_norm_flag else (0,), dtype=uq.dtype),
        x.new_empty(norm_scales, dtype=torch.float32),
    ]


@opaque(_infer)
def mla_prolog_functional(
    tensors: Sequence[Tensor | None],
    numbers: Sequence[float],
    kv_cache: Tensor,
    kr_cache: Tensor,
    cache_index: Tensor | None,
    ends: Tensor | None,
    cache_mode: str,
    query_norm_flag: bool,
) -> list[Tensor]:
    """All results of the third version, with copies of the caches after the rope part."""
    caches = kv_cache.clone(), kr_cache.clone()
    computed = write_caches("npu_mla_prolog_v3", tensors, numbers, caches, cache_index, ends, cache_mode)
    x = tensors[0]
    assert x is not None
    query, rope, scale, norm, norm_scale = reshape_results(computed, x, query_norm_flag)
    return [query, rope, *caches, scale, norm, norm_scale]


@kernel("MlaPrologV3", flops=CONTRACTION, may_alias=True)
def mla_prolog_v3_node(
    token_x: Tensor,
    weight_dq: Tensor,
    weight_uq_qr: Tensor,
    weight_uk: Tensor,
    weight_dkv_kr: Tensor,
    rmsnorm_gamma_cq: Tensor,
    rmsnorm_gamma_ckv: Tensor,
    rope_sin: Tensor,
    rope_cos: Tensor,
    kv_cache: Tensor,
    kr_cache: Tensor,
    cache_index: Tensor | None = None,
    dequant_scale_x: Tensor | None = None,
    dequant_scale_w_dq: Tensor | None = None,
    dequant_scale_w_uq_qr: Tensor | None = None,
    dequant_scale_w_dkv_kr: Tensor | None = None,
    quant_scale_ckv: Tensor | None = None,
    quant_scale_ckr: Tensor | None = None,
    smooth_scales_cq: Tensor | None = None,
    actual_seq_len: Tensor | None = None,
    k_nope_clip_alpha: Tensor | None = None,  # noqa: ARG001 - of a cache mode that the rules refuse
    *,
    rmsnorm_epsilon_cq: float = 1e-5,
    rmsnorm_epsilon_ckv: float = 1e-5,
    cache_mode: str = "PA_BSND",
    query_norm_flag: bool = False,
    weight_quant_mode: int = 0,  # noqa: ARG001 - implied by the dtypes
    kv_cache_quant_mode: int = 0,  # noqa: ARG001 - implied by the dtypes
    query_quant_mode: int = 0,  # noqa: ARG001 - implied by the dtypes
    ckvkr_repo_mode: int = 0,  # noqa: ARG001
    quant_scale_repo_mode: int = 0,  # noqa: ARG001
    tile_size: int = 128,  # noqa: ARG001
    qc_qr_scale: float = 1.0,
    kc_scale: float = 1.0,
) -> tuple[Tensor, ...]:
    tensors = [
        token_x, weight_dq, weight_uq_qr, weight_uk, weight_dkv_kr, rmsnorm_gamma_cq, rmsnorm_gamma_ckv, rope_sin,
        rope_cos, dequant_scale_x, dequant_scale_w_dq, dequant_scale_w_uq_qr, dequant_scale_w_dkv_kr,
        quant_scale_ckv, quant_scale_ckr, smooth_scales_cq,
    ]  # fmt: skip
    numbers = [rmsnorm_epsilon_cq, rmsnorm_epsilon_ckv, qc_qr_scale, kc_scale]
    caches = kv_cache, kr_cache
    query, rope, latents, ropes, *rest = mla_prolog_functional(
        tensors, numbers, *caches, cache_index, actual_seq_len, cache_mode, query_norm_flag
    )
    # The node writes its caches, because TorchAir drops the copy back where nothing else reads it.
    return query, rope, kv_cache.copy_(latents), kr_cache.copy_(ropes), *rest


@kernel("MlaPrologV2", flops=CONTRACTION, may_alias=True)
def mla_prolog_v2_node(
    token_x: Tensor,
    weight_dq: Tensor,
    weight_uq_qr: Tensor,
    weight_uk: Tensor,
    weight_dkv_kr: Tensor,
    rmsnorm_gamma_cq: Tensor,
    rmsnorm_gamma_ckv: Tensor,
    rope_sin: Tensor,
    rope_cos: Tensor,
    cache_index: Tensor,
    kv_cache: Tensor,
    kr_cache: Tensor,
    dequant_scale_x: Tensor | None = None,
    dequant_scale_w_dq: Tensor | None = None,
    dequant_scale_w_uq_qr: Tensor | None = None,
    dequant_scale_w_dkv_kr: Tensor | None = None,
    quant_scale_ckv: Tensor | None = None,
    quant_scale_ckr: Tensor | None = None,
    smooth_scales_cq: Tensor | None = None,
    *,
    rmsnorm_epsilon_cq: float = 1e-5,
    rmsnorm_epsilon_ckv: float = 1e-5,
    cache_mode: str = "PA_BSND",
) -> tuple[Tensor, ...]:
    results = mla_prolog_v3_node(
        token_x, weight_dq, weight_uq_qr, weight_uk, weight_dkv_kr, rmsnorm_gamma_cq, rmsnorm_gamma_ckv, rope_sin,
        rope_cos, kv_cache, kr_cache, cache_index, dequant_scale_x, dequant_scale_w_dq, dequant_scale_w_uq_qr,
        dequant_scale_w_dkv_kr, quant_scale_ckv, quant_scale_ckr, smooth_scales_cq,
        rmsnorm_epsilon_cq=rmsnorm_epsilon_cq,
        rmsnorm_epsilon_ckv=rmsnorm_epsilon_ckv,
        cache_mode=cache_mode,
    )  # fmt: skip
    scale = results[4]
    is_quantised = token_x.dtype == torch.int8 and kv_cache.dtype == torch.int8
    return (*results[:4], scale if is_quantised else scale.new_zeros(1))


@kernel("MlaProlog", flops=CONTRACTION, may_alias=True)
@functools.wraps(mla_prolog_v2_node)
def mla_prolog_node(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    return mla_prolog_v2_node(*args, **kwargs)[:4]

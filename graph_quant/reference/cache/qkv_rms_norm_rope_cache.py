"""npu_qkv_rms_norm_rope_cache and its functional form: RMS norm, RoPE and cache write for a fused QKV projection.

Queries and keys get an RMS norm and a rotation by halves. Queries are written to q_out, keys and values to their slots
of PA_NZ caches, for int8 divided by their scale and with their offset added. Everything is computed in float32 and
rounded once. The kernel's source is not public; its order of additions may change results by one unit in the last
place.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.destination import INT8
from graph_quant.ge import kernel
from graph_quant.reference.cache.paged_cache import PA_NZ, write_tokens
from graph_quant.reference.norm.rms import divide_by_rms
from graph_quant.reference.rope.rotation import rotate_pairs
from graph_quant.reference.rounding import affine
from torch import Tensor

OP = "npu_qkv_rms_norm_rope_cache"


def _norm_and_rotate(x: Tensor, gamma: Tensor, cos: Tensor, sin: Tensor, epsilon: float) -> Tensor:
    """float32 ``x`` (tokens, heads, channels) after RMS norm and RoPE."""
    normed = divide_by_rms(x, epsilon) * gamma.float()
    return normed * cos.float()[:, None] + rotate_pairs(normed) * sin.float()[:, None]


def _to_cache_dtype(values: Tensor, scale: Tensor | None, offset: Tensor | None, dtype: torch.dtype) -> Tensor:
    return values.to(dtype) if scale is None else affine(values, scale, offset, INT8, divide=True)


def qkv_rms_norm_rope_cache(
    qkv: Tensor,
    q_gamma: Tensor,
    k_gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    q_out: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    head_nums: Sequence[int],
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    k_offset: Tensor | None,
    v_offset: Tensor | None,
    epsilon: float,
    is_output_qkv: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Writes queries and both caches; returns all three before quantisation, or scalar zeros without is_output_qkv."""
    heads = qkv.float().unflatten(-1, (sum(head_nums), -1))
    q, k, v = heads.split(list(head_nums), 1)
    q, k = _norm_and_rotate(q, q_gamma, cos, sin, epsilon), _norm_and_rotate(k, k_gamma, cos, sin, epsilon)
    q_out.copy_(q.flatten(1).to(qkv.dtype))
    write_tokens(OP, "index", k_cache, _to_cache_dtype(k, k_scale, k_offset, qkv.dtype), index, PA_NZ)
    write_tokens(OP, "index", v_cache, _to_cache_dtype(v, v_scale, v_offset, qkv.dtype), index, PA_NZ)
    if is_output_qkv:
        return q.flatten(1).to(qkv.dtype), k.flatten(1).to(qkv.dtype), v.flatten(1).to(qkv.dtype)
    return qkv.new_zeros(()), qkv.new_zeros(()), qkv.new_zeros(())


@functools.wraps(qkv_rms_norm_rope_cache)
def qkv_rms_norm_rope_cache_functional(**arguments: Any) -> tuple[Tensor, ...]:
    """The results of the in-place form and updated copies of q_out and the caches."""
    copies = {name: arguments[name].clone() for name in ("q_out", "k_cache", "v_cache")}
    return *qkv_rms_norm_rope_cache(**{**arguments, **copies}), *copies.values()


@kernel("QkvRmsNormRopeCache", flops=10, may_alias=True)
def qkv_rms_norm_rope_cache_node(
    qkv: Tensor,
    q_gamma: Tensor,
    k_gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    q_out: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    k_offset: Tensor | None = None,
    v_offset: Tensor | None = None,
    *,
    qkv_size: Sequence[int],  # noqa: ARG001 (follows from the shapes)
    head_nums: Sequence[int],
    epsilon: float = 1e-6,
    cache_mode: str = PA_NZ,
    is_output_qkv: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    if cache_mode != PA_NZ:
        raise NotImplementedError(f"QkvRmsNormRopeCache: cache_mode {cache_mode!r} has no host kernel, only PA_NZ")
    rows, written = (qkv, q_gamma, k_gamma, cos, sin, index), (q_out, k_cache, v_cache)
    quantisation = (k_scale, v_scale, k_offset, v_offset)
    outputs = qkv_rms_norm_rope_cache(*rows, *written, head_nums, *quantisation, epsilon, is_output_qkv)
    return *written, *outputs

"""npu_mla_prolog in its versions: the projections before multi-head latent attention.

``c_q = norm(x @ w_dq)``; per head ``q = (c_q @ w_uq) @ w_uk`` and ``q_rope = rope(c_q @ w_qr)``; ``c_kv = norm(x @
w_dkv)`` and ``k_rope = rope(x @ w_kr)`` are written to their caches. bfloat16 matmuls are rounded to bfloat16, int8
matmuls are exact and dequantised to float32; norms and ropes are computed in float32 and rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.reference.half_products import multiply
from graph_quant.reference.matmul.int8_matmul import int8_matmul
from graph_quant.reference.rope.rotation import rotate_interleaved
from torch import Tensor

_LARGEST = 127.0


@dataclass(frozen=True)
class Prolog:
    """The rows for the caches, and the results of the third version."""

    query: Tensor
    query_rope: Tensor
    latent_rows: Tensor
    rope_rows: Tensor
    query_scale: Tensor
    query_norm: Tensor
    norm_scale: Tensor


@dataclass(frozen=True)
class Inputs:
    """The tensors and attributes of a call without its caches, by their names in npu_mla_prolog_v3."""

    token_x: Tensor
    weight_dq: Tensor
    weight_uq_qr: Tensor
    weight_uk: Tensor
    weight_dkv_kr: Tensor
    rmsnorm_gamma_cq: Tensor
    rmsnorm_gamma_ckv: Tensor
    rope_sin: Tensor
    rope_cos: Tensor
    dequant_scale_x: Tensor | None
    dequant_scale_w_dq: Tensor | None
    dequant_scale_w_uq_qr: Tensor | None
    dequant_scale_w_dkv_kr: Tensor | None
    quant_scale_ckv: Tensor | None
    quant_scale_ckr: Tensor | None
    smooth_scales_cq: Tensor | None
    rmsnorm_epsilon_cq: float
    rmsnorm_epsilon_ckv: float
    qc_qr_scale: float
    kc_scale: float


def compute_prolog(inputs: Inputs, quantises_latent: bool, quantises_query: bool) -> Prolog:
    """All results, as rows of tokens: (T, ...)."""
    x = inputs.token_x.flatten(0, -2)
    sin, cos = inputs.rope_sin.flatten(0, -2).float(), inputs.rope_cos.flatten(0, -2).float()
    heads, width, latent = inputs.weight_uk.shape
    down = _matmul(x, inputs.weight_dq, inputs.dequant_scale_x, inputs.dequant_scale_w_dq)
    normed = _rms_norm(down, inputs.rmsnorm_gamma_cq, inputs.rmsnorm_epsilon_cq, inputs.qc_qr_scale)
    query_norm, norm_scale = _quantise_norm(normed, inputs)
    up = _matmul(query_norm, inputs.weight_uq_qr, norm_scale, inputs.dequant_scale_w_uq_qr).unflatten(-1, (heads, -1))
    # The part for the next matmul is rounded to bfloat16; the part to be rotated is not.
    nope = up[..., :width].bfloat16()
    query = multiply(nope.transpose(0, 1), inputs.weight_uk, dtype=torch.bfloat16).transpose(0, 1).contiguous()
    rope = rotate_interleaved(up[..., width:].float(), cos[:, None], sin[:, None]).bfloat16()
    query_scale = query.new_empty(0, dtype=torch.float32)
    if quantises_query:
        query, query_scale = _quantise_query(query)
        assert inputs.quant_scale_ckv is not None
        # The kernel reads the first scale alone, also of the row that the second version takes.
        ckv_scale = inputs.quant_scale_ckv.flatten()[:1]
        rope = (rope.float() * (ckv_scale / query_scale)).bfloat16()
    key = _matmul(x, inputs.weight_dkv_kr, inputs.dequant_scale_x, inputs.dequant_scale_w_dkv_kr)
    latent_rows = _rms_norm(key[:, :latent], inputs.rmsnorm_gamma_ckv, inputs.rmsnorm_epsilon_ckv, inputs.kc_scale)
    rope_rows = rotate_interleaved(key[:, latent:].float(), cos, sin).bfloat16()
    latent_scale = inputs.quant_scale_ckv if quantises_latent else None
    latent_rows = _to_cache_dtype(latent_rows, ckv_scale if quantises_query else latent_scale)
    rope_rows = _to_cache_dtype(rope_rows.float(), inputs.quant_scale_ckr)
    return Prolog(query, rope, latent_rows, rope_rows, query_scale, query_norm, norm_scale)


def _matmul(x: Tensor, weight: Tensor, row_scale: Tensor | None, column_scale: Tensor | None) -> Tensor:
    """``x @ weight``, rounded to bfloat16; int8 is dequantised to float32, by row scales first."""
    if weight.dtype != torch.int8:
        return multiply(x, weight, dtype=torch.bfloat16)
    assert row_scale is not None
    assert column_scale is not None
    return int8_matmul(x, weight).float() * row_scale.reshape(-1, 1) * column_scale.reshape(1, -1)


def _rms_norm(x: Tensor, gamma: Tensor, epsilon: float, scale: float) -> Tensor:
    wide = x.float()
    mean = wide.square().sum(-1, keepdim=True) * (1.0 / x.size(-1))
    normed = wide / (mean + epsilon).sqrt() * gamma.float()
    return normed if scale == 1.0 else normed * scale


def _quantise_norm(normed: Tensor, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """The norm as operand of the next matmul: bfloat16, or int8 with a scale per row."""
    if inputs.weight_uq_qr.dtype != torch.int8:
        return normed.bfloat16(), normed.new_empty(0)
    if inputs.smooth_scales_cq is not None:
        normed = normed * inputs.smooth_scales_cq.reshape(1, -1)
    largest = normed.abs().amax(-1, keepdim=True)
    return (normed * (_LARGEST / largest)).round().to(torch.int8), largest / _LARGEST


def _quantise_query(query: Tensor) -> tuple[Tensor, Tensor]:
    """int8 with a scale per token and head. Rounded twice: to float16, then half away from zero."""
    wide = query.float()
    largest = wide.abs().amax(-1, keepdim=True)
    scaled = (wide * (_LARGEST / largest)).half().float()
    return (scaled + scaled.sign() * 0.5).trunc().to(torch.int8), largest / _LARGEST


def _to_cache_dtype(rows: Tensor, scale: Tensor | None) -> Tensor:
    if scale is None:
        return rows.bfloat16()
    return (rows * scale.reshape(1, -1)).round().clamp(-128, 127).to(torch.int8)

"""vllm-ascend's int8 cache of MLA latents: its quantisation method, and its decoding attention."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from .layer import ROUNDING, Layer
from .vllm_ascend_experts import CONFIG

_KV_C8 = "vllm_ascend.quantization.methods.kv_c8"
_MLA = "vllm_ascend.attention.mla_v1"
REAL = (_MLA,)
ANSWERS = {
    "vllm.distributed.get_tensor_model_parallel_rank": lambda: 0,
    "vllm.distributed.get_tensor_model_parallel_world_size": lambda: 1,
}
_HEADS, _LATENT, _ROPE, _VALUE, _BLOCK, _SEQUENCES, _LENGTH = 4, 512, 64, 128, 128, 2, 40
_SCALE = (128 + _ROPE) ** -0.5
# As for experts: rounding errors are nearly normal, and one value in a million exceeds the bound.
_DEVIATIONS = 5


def _layer() -> Any:
    """Return a layer with one scale for all latents, as checkpoints have it."""
    CONFIG.model_config.hf_config = SimpleNamespace(kv_lora_rank=_LATENT, qk_rope_head_dim=_ROPE)
    layer: Any = nn.Module()
    layer.num_heads, layer.num_kv_heads = _HEADS, 1
    method = importlib.import_module(_KV_C8).AscendFAQuantAttentionMethod()
    torch.set_default_dtype(torch.bfloat16)  # as vllm loads a model of bfloat16
    method.create_weights(layer)
    torch.set_default_dtype(torch.float32)
    for name in ("fa_q", "fa_k", "fa_v"):
        for parameter, value in ((getattr(layer, name).scale, 2.0**-5), (getattr(layer, name).offset, 0)):
            parameter.weight_loader(parameter, torch.full(parameter.shape, value).to(parameter.dtype))
    layer.npu()
    method.process_weights_after_loading(layer)
    return layer


def _attention(layer: Any, up: Tensor) -> Any:
    mla = importlib.import_module(_MLA).AscendMLAImpl
    attention = mla.__new__(mla)
    fields = {"num_heads": _HEADS, "num_heads_padded": _HEADS, "head_padding": 0, "num_kv_heads": 1, "scale": _SCALE}
    fields |= {"kv_lora_rank": _LATENT, "qk_rope_head_dim": _ROPE, "v_head_dim": _VALUE, "W_UV": up.npu()}
    fields |= {"fa_quant_layer": True, "fak_descale_float": layer.fak_descale_float, "enable_kv_nz": True}
    for name, value in {**fields, "speculative_config": None}.items():
        setattr(attention, name, value)
    return attention


def _in_fractals(rows: Tensor, width: int) -> Tensor:
    """Return rows in FRACTAL_NZ: a block for each sequence, its channels in groups of ``width``."""
    padded = torch.zeros(_SEQUENCES, _BLOCK, rows.size(-1), dtype=rows.dtype)
    padded[:, :_LENGTH] = rows
    return padded.unflatten(-1, (-1, width)).transpose(1, 2).contiguous()


def _decoding() -> Layer:
    layer = _layer()
    step = 1 / layer.quant_kscale.cpu().double()[0, 0].item()
    up = (torch.randn(_HEADS, _LATENT, _VALUE) * _LATENT**-0.5).bfloat16()
    latents, keys = torch.randn(_SEQUENCES, _LENGTH, _LATENT), torch.randn(_SEQUENCES, _LENGTH, _ROPE).bfloat16()
    query, rope_query = torch.randn(_SEQUENCES, _HEADS, _LATENT), torch.randn(_SEQUENCES, _HEADS, _ROPE)
    held = (latents / step).round().clamp(-128, 127).to(torch.int8)
    query_step = query.abs().amax(-1, keepdim=True) / 127
    about = SimpleNamespace(
        attn_state=None,
        decode=SimpleNamespace(
            block_table=torch.arange(_SEQUENCES, dtype=torch.int32)[:, None].npu(),
            seq_lens_list=[_LENGTH] * _SEQUENCES,
            actual_seq_lengths_q=None,
        ),
    )
    output = _attention(layer, up)._forward_decode(
        (query / query_step).round().to(torch.int8).npu(),
        (rope_query / query_step / step).bfloat16().npu(),
        _in_fractals(held, 32).npu(),
        _in_fractals(keys, 16).npu(),
        _BLOCK,
        about,
        query_step.squeeze(-1).npu(),
    )
    return _compare(output, (query, rope_query), (latents, keys), up, (query_step, step))


def _compare(
    output: Tensor,
    queries: tuple[Tensor, Tensor],
    held: tuple[Tensor, Tensor],
    up: Tensor,
    steps: tuple[Tensor, float],
) -> Layer:
    """Return exact attention, and the error bound of quantised queries, latents and softmax results."""
    (query, rope_query), (latents, keys) = ([tensor.double() for tensor in pair] for pair in (queries, held))
    query_step, step = steps[0].double(), steps[1]
    across = rope_query @ keys.transpose(1, 2)
    scores = (query @ latents.transpose(1, 2) + across) * _SCALE
    weights = scores.softmax(-1)
    out = weights @ latents
    of_score = (query**2).sum(-1, keepdim=True) * step**2 / 12 + query_step**2 / 12 * (latents**2).sum(-1)[:, None]
    of_score = (of_score + (ROUNDING * across) ** 2) * _SCALE**2
    of_weight = weights**2 * of_score + (weights.amax(-1, keepdim=True) / 127) ** 2 / 12
    variance = of_weight @ latents**2 + (weights**2).sum(-1, keepdim=True) * step**2 / 12 + (ROUNDING * out) ** 2
    wide = up.double()
    wanted = torch.einsum("bhl,hlv->bhv", out, wide)
    variance = torch.einsum("bhl,hlv->bhv", variance, wide**2) + (ROUNDING * wanted) ** 2
    return Layer(output, wanted.flatten(1), _DEVIATIONS * variance.sqrt().flatten(1))


CASES: dict[str, Callable[[], Layer]] = {"FAKQuant cache of latents, decoding": _decoding}

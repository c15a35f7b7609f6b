"""vllm-ascend's int8 KV cache: its quantisation method, and its attention over the cache."""

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
_ATTENTION = "vllm_ascend.attention.attention_v1"
REAL = (_KV_C8, _ATTENTION)
_HEADS, _KV_HEADS, _WIDTH, _BLOCK = 4, 2, 128, 128
_SCALE = _WIDTH**-0.5
_PROMPTS = (5, 3)
# As for experts: rounding errors are nearly normal, and one value in a million exceeds the bound.
_DEVIATIONS = 5


def _layer() -> Any:
    """Return an attention layer with a scale for each channel, as checkpoints have them."""
    attention = importlib.import_module(_ATTENTION)
    layer: Any = nn.Module()
    layer.impl = attention.AscendAttentionBackendImpl.__new__(attention.AscendAttentionBackendImpl)
    of_impl = {"num_heads": _HEADS, "num_kv_heads": _KV_HEADS, "head_size": _WIDTH, "scale": _SCALE}
    of_impl |= {"key_cache": None, "value_cache": None, "kv_sharing_target_layer_name": None, "attn_type": "decoder"}
    of_impl |= {"vllm_config": CONFIG, "is_kv_producer": False, "_use_layer_aware_fia_graph_replay": False}
    for key, value in of_impl.items():
        setattr(layer.impl, key, value)
    method = importlib.import_module(_KV_C8).AscendC8KVCacheAttentionMethod({}, "")
    torch.set_default_dtype(torch.bfloat16)  # as vllm loads a model of bfloat16
    method.create_weights(layer)
    torch.set_default_dtype(torch.float32)
    for parameter in (layer.k_cache_scale, layer.v_cache_scale):
        scale = (torch.rand(_KV_HEADS * _WIDTH) + 1) / 32
        parameter.weight_loader(parameter, scale.bfloat16().npu())
        assert parameter.numel() == scale.numel()
    for parameter in (layer.k_cache_offset, layer.v_cache_offset):
        parameter.weight_loader(parameter, torch.zeros(_KV_HEADS * _WIDTH).bfloat16().npu())
    method.process_weights_after_loading(layer)
    return layer


def _random_qkv(tokens: int) -> list[Tensor]:
    return [torch.randn(tokens, heads, _WIDTH).bfloat16() for heads in (_HEADS, _KV_HEADS, _KV_HEADS)]


def _metadata(state: str, new: tuple[int, ...], before: tuple[int, ...], decodes: int) -> Any:
    """Return attention metadata: each sequence has one block; the first ``decodes`` sequences get one token."""
    ends = torch.tensor(new).cumsum(0).tolist()
    slots = [_BLOCK * row + start + offset for row, (start, more) in enumerate(zip(before, new, strict=True))
              for offset in range(more)]  # fmt: skip
    lengths = [start + more for start, more in zip(before, new, strict=True)]
    return SimpleNamespace(
        attn_state=getattr(importlib.import_module(_ATTENTION).AscendAttentionState, state),
        num_actual_tokens=ends[-1],
        num_decode_tokens=decodes,
        num_decodes=decodes,
        num_prefills=len(new) - decodes,
        actual_seq_lengths_q=ends,
        seq_lens_list=lengths,
        slot_mapping=torch.tensor(slots, dtype=torch.int32).npu(),
        block_tables=torch.arange(len(new), dtype=torch.int32)[:, None].npu(),
        attn_mask=torch.ones(2048, 2048, dtype=torch.bool).triu(1).npu(),
        model_runner_type="generate",
    )


def _run(*steps: tuple[str, tuple[int, ...], int]) -> Layer:
    """Run steps (state, new tokens of each sequence, decoding sequences), and compare the last one."""
    layer = _layer()
    caches = tuple(torch.zeros(len(_PROMPTS), _BLOCK, _KV_HEADS, _WIDTH, dtype=torch.int8).npu() for _ in range(2))
    held = [(torch.empty(0, _KV_HEADS, _WIDTH), torch.empty(0, _KV_HEADS, _WIDTH)) for _ in _PROMPTS]
    for state, new, decodes in steps:
        query, key, value = _random_qkv(sum(new))
        about = _metadata(state, new, tuple(keys.size(0) for keys, _ in held), decodes)
        output = torch.zeros_like(query).npu()
        layer.impl.forward(layer, query.npu(), key.npu(), value.npu(), caches, about, output)
        held = [
            (torch.cat([keys, k]), torch.cat([values, v]))
            for (keys, values), k, v in zip(held, key.split(new), value.split(new), strict=True)
        ]
    k_step, v_step = (
        parameter.detach().cpu().double().reshape(_KV_HEADS, _WIDTH)
        for parameter in (layer.k_cache_scale, layer.v_cache_scale)
    )
    compared = [_compare(*sequence, k_step, v_step) for sequence in zip(query.split(new), held, strict=True)]
    wanted, bound = (torch.cat(parts) for parts in zip(*compared, strict=True))
    return Layer(output, wanted, bound)


def _compare(query: Tensor, held: tuple[Tensor, Tensor], k_step: Tensor, v_step: Tensor) -> tuple[Tensor, Tensor]:
    """Return exact causal attention of the last tokens, and the error bound of quantised keys and values."""
    group = _HEADS // _KV_HEADS
    q = query.double().transpose(0, 1)
    k, v = (tensor.double().transpose(0, 1).repeat_interleave(group, 0) for tensor in held)
    k_step, v_step = (tensor.repeat_interleave(group, 0)[:, None] for tensor in (k_step, v_step))
    scores = q @ k.transpose(1, 2) * _SCALE
    hidden = torch.ones(q.size(1), k.size(1), dtype=torch.bool).triu(1 + k.size(1) - q.size(1))
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    out = weights @ v
    of_score = ((q * k_step) ** 2).sum(-1) / 12 * _SCALE**2 + (ROUNDING * scores).pow(2).amax(-1)
    spread = (weights**2) @ v**2 - 2 * ((weights**2) @ v) * out + (weights**2).sum(-1, keepdim=True) * out**2
    variance = of_score[..., None] * spread + (weights**2).sum(-1, keepdim=True) * v_step**2 / 12
    variance = variance + (ROUNDING * out) ** 2 + ((ROUNDING * weights) ** 2) @ v**2
    return out.transpose(0, 1), _DEVIATIONS * variance.sqrt().transpose(0, 1)


_PREFILL = ("ChunkedPrefill", _PROMPTS, 0)
CASES: dict[str, Callable[[], Layer]] = {
    "C8 cache, decoding": lambda: _run(_PREFILL, ("DecodeOnly", (1, 1), 2)),
    "C8 cache, one decodes and one reads on": lambda: _run(_PREFILL, ("ChunkedPrefill", (1, 4), 1)),
}

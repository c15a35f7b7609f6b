"""Memory of a card, and the buffer that the collectives of experts need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .headers import Headers
from .sharding import COLUMN, ROW, is_key_or_value, kind_of

_ALIGNED = 512
_DISPATCH_TAIL, _MIB = 44, 1 << 20
# Parts that have an element for each output, or for each input.
_BY_OUTPUT = frozenset({"weight", "weight_packed", "weight_scale", "weight_offset", "bias", "deq_scale", "quant_bias"})
_BY_INPUT = frozenset({"weight", "weight_packed"})


def weight_bytes(headers: Headers, cards: int, config: Mapping[str, Any]) -> int:
    """The bytes of weights on one card."""
    total = 0
    heads = config.get("num_key_value_heads") or cards
    for name, header in headers.tensors.items():
        module, _, part = name.rpartition(".")
        kind = kind_of(module)
        divided = (kind == COLUMN and part in _BY_OUTPUT) or (kind == ROW and part in _BY_INPUT)
        divisor = min(cards, heads) if is_key_or_value(module) else cards
        total += header.bytes // divisor if divided else header.bytes
    return total


def cache_bytes(config: Mapping[str, Any], cards: int) -> int | None:
    """The bytes of the cache for each token on one card in 16 bits; None where the configuration does not tell."""
    layers = config.get("num_hidden_layers")
    if not isinstance(layers, int):
        return None
    if rank := config.get("kv_lora_rank"):  # latent attention keeps one row for all heads
        return int(layers * (rank + (config.get("qk_rope_head_dim") or 0)) * 2)
    heads, size = config.get("num_key_value_heads", config.get("num_attention_heads")), head_size(config)
    if not isinstance(heads, int) or size is None:
        return None
    return layers * 2 * -(-heads // cards) * size * 2


def head_size(config: Mapping[str, Any]) -> int | None:
    """The size of a head."""
    if isinstance(size := config.get("head_dim"), int):
        return size
    hidden, heads = config.get("hidden_size"), config.get("num_attention_heads")
    return hidden // heads if isinstance(hidden, int) and isinstance(heads, int) and heads else None


def experts_of(config: Mapping[str, Any]) -> tuple[int, int] | None:
    """The routed experts of a layer, and how many a token goes to; None for a dense model."""
    count = next(
        (config[key] for key in ("n_routed_experts", "num_experts", "num_local_experts") if config.get(key)), 0
    )
    chosen = config.get("num_experts_per_tok") or config.get("moe_topk") or 0
    return (int(count), int(chosen)) if count and chosen else None


def buffer_mib(config: Mapping[str, Any], cards: int, tokens: int) -> int | None:
    """The least HCCL_BUFFSIZE, in MiB, of dispatch and combine among the cards; None for a dense model.

    The formula is the one that the tiling of npu_moe_distribute_dispatch_v2 prints where the buffer is too small.
    """
    experts, hidden = experts_of(config), config.get("hidden_size")
    if experts is None or not isinstance(hidden, int) or cards < 2:
        return None
    count, chosen = experts
    sent = _align(_align(2 * hidden, 32) + _DISPATCH_TAIL)
    received = _align(2 * hidden)
    window = tokens * sent * cards * -(-count // cards) + tokens * received * chosen
    return -(-window * 2 // _MIB) + 1


def _align(size: int, to: int = _ALIGNED) -> int:
    return -(-size // to) * to

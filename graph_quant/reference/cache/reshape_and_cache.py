"""ATB's _npu_reshape_and_cache and _npu_reshape_and_cache_siso: writes tokens to their slots of paged caches."""

from __future__ import annotations

from graph_quant.reference.cache.paged_cache import NORM, write_tokens
from torch import Tensor

OP = "_npu_reshape_and_cache"


def reshape_and_cache(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_indices: Tensor, mode: str
) -> tuple[()]:
    """Writes into both caches."""
    write_tokens(OP, "slot_indices", key_cache, key, slot_indices, mode)
    write_tokens(OP, "slot_indices", value_cache, value, slot_indices, mode)
    return ()


def reshape_and_cache_siso(key: Tensor, key_cache: Tensor, slot_indices: Tensor) -> tuple[()]:
    """Writes into one cache."""
    write_tokens(f"{OP}_siso", "slot_indices", key_cache, key, slot_indices, NORM)
    return ()

"""ATB's _npu_reshape_and_cache, for keys and values, and _npu_reshape_and_cache_siso, for one of them.

Tokens are (tokens, heads, channels) of float16, bfloat16 or int8, their caches (blocks, block size, heads, channels).
The first operator also takes PA_NZ caches, (blocks, heads * channels / c, block size, c), where keys and values may
have different dtypes. slot_indices has an int32 for each token; negative slots are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.meta import atb  # noqa: F401 (it defines the operators)
from graph_quant.meta.cache.paged_cache import check_alike, check_rows
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules, statically_known_true
from graph_quant.reference.cache import reshape_and_cache as reference
from graph_quant.reference.cache.paged_cache import NORM, PA_NZ
from torch import Tensor


@dataclass(frozen=True)
class CachePlan(Plan):
    """``mode`` is the layout of the caches, inferred from their shapes."""

    mode: str


def _check_slots(rules: Rules, key: Tensor, slot_indices: Tensor) -> None:
    rules.dtype("slot_indices", slot_indices, (torch.int32,))
    rules.rank("slot_indices", slot_indices, 1)
    rules.equal("slot_indices.size(0)", slot_indices.size(0), "key.size(0)", key.size(0))


@operator("atb::_npu_reshape_and_cache", reference=reference.reshape_and_cache)
def reshape_and_cache(
    rules: Rules, key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_indices: Tensor
) -> CachePlan:
    """Check a call against the rules of the library and return its plan."""
    is_norm = statically_known_true(key_cache.size(-1) == key.size(-1))
    mode = NORM if is_norm or key_cache.dim() != 4 else PA_NZ
    check_rows(rules, "key", key, key_cache, mode)
    check_rows(rules, "value", value, value_cache, mode)
    if mode == NORM:
        rules.dtype("value", value, (key.dtype,), ", the dtype of key")
    for dim in range(2):
        rules.equal(f"value.size({dim})", value.size(dim), f"key.size({dim})", key.size(dim))
    check_alike(rules, key_cache, value_cache, mode)
    _check_slots(rules, key, slot_indices)
    return CachePlan((), mode)


@operator("atb::_npu_reshape_and_cache_siso", reference=reference.reshape_and_cache_siso)
def reshape_and_cache_siso(rules: Rules, key: Tensor, key_cache: Tensor, slot_indices: Tensor) -> Plan:
    """Check a call for a single cache and return its plan."""
    check_rows(rules, "key", key, key_cache, NORM)
    _check_slots(rules, key, slot_indices)
    return Plan(())

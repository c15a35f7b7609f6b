"""npu_scatter_pa_kv_cache and its functional form: argument rules and results.

key and value are (tokens, heads, channels) of float16, bfloat16 or int8, not empty; their channels may differ.
slot_mapping has an int32 or int64 for each token. The caches have the same dtypes and the layouts that
graph_quant.reference.cache.paged_cache describes for cache_mode Norm (or None) and PA_NZ; in mode Norm value has the
dtype of key, in mode PA_NZ int8 values need int8 keys and a block has at most 65535 slots. The caches have a slot for
every token. Keys of four dimensions and compression need Ascend 950, for which they are not described yet; it takes
more dtypes, blocks of any size and caches with fewer slots than tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.meta.cache.paged_cache import check_alike, check_rows
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import TILING_ERROR, Rules
from graph_quant.reference.cache import scatter_pa_kv_cache as reference
from graph_quant.reference.cache.paged_cache import NORM, PA_NZ
from torch import Tensor

LARGEST_BLOCK = 65535


@dataclass(frozen=True)
class ScatterPlan(Plan):
    """``mode`` is the layout of the caches."""

    mode: str


def _check_mode(
    rules: Rules,
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    compressing: dict[str, Tensor | None],
    cache_mode: str | None,
) -> str:
    for name, tensor in compressing.items():
        rules.require(tensor is None, lambda name=name: _explain_compression(rules, name))  # type: ignore[misc]
    mode = NORM if cache_mode is None else cache_mode
    rules.require(mode in (NORM, PA_NZ), lambda: f"cache_mode must be None, Norm or PA_NZ, got {cache_mode!r}")
    check_rows(rules, "key", key, key_cache, mode)
    check_rows(rules, "value", value, value_cache, mode)
    if mode == NORM:
        rules.dtype("value", value, (key.dtype,), ", the dtype of key")
    for dim in range(2):
        rules.equal(f"value.size({dim})", value.size(dim), f"key.size({dim})", key.size(dim))
    check_alike(rules, key_cache, value_cache, mode)
    _check_slots(rules, key, value, key_cache, mode)
    rules.dtype("slot_mapping", slot_mapping, (torch.int32, torch.int64))
    rules.rank("slot_mapping", slot_mapping, 1)
    rules.equal("slot_mapping.size(0)", slot_mapping.size(0), "key.size(0)", key.size(0))
    return mode


def _explain_compression(rules: Rules, name: str) -> str:
    if rules.chip is ASCEND_950:
        return f"{name} must be None, compression is not described for Ascend 950 yet, got a tensor"
    return f"{name} needs Ascend 950, it must be None"


def _check_slots(rules: Rules, key: Tensor, value: Tensor, key_cache: Tensor, mode: str) -> None:
    """Check what only the tiling does: slots for all tokens, and in mode PA_NZ the dtypes and the size of a block."""
    if rules.chip is ASCEND_950:
        return
    size = key_cache.size(-2 if mode == PA_NZ else 1)
    slots = key_cache.size(0) * size
    rules.require(
        slots >= key.size(0),
        lambda: f"key_cache must have a slot for every token, {key.size(0)}, got {slots} slots",
        TILING_ERROR,
    )
    if mode == PA_NZ:
        rules.require(
            size <= LARGEST_BLOCK,
            lambda: f"key_cache.size(-2) must be at most {LARGEST_BLOCK} in mode PA_NZ, got {size}",
            TILING_ERROR,
        )
        rules.require(
            value.dtype != torch.int8 or key.dtype == torch.int8,
            lambda: f"key must be torch.int8 beside values of torch.int8, got {key.dtype}",
            TILING_ERROR,
        )


@operator("npu_scatter_pa_kv_cache", reference=reference.scatter_pa_kv_cache, results=lambda _: (), chips=A2_A3_950)
@operator("npu_scatter_pa_kv_cache_functional", reference=reference.scatter_pa_kv_cache_functional, chips=A2_A3_950)
def scatter_pa_kv_cache(
    rules: Rules,
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    compress_lens: Tensor | None,
    compress_seq_offsets: Tensor | None,
    seq_lens: Tensor | None,
    cache_mode: str | None,
) -> ScatterPlan:
    """Check a call against the documented rules and return its plan."""
    compressing = {"compress_lens": compress_lens, "compress_seq_offsets": compress_seq_offsets, "seq_lens": seq_lens}
    mode = _check_mode(rules, key, value, key_cache, value_cache, slot_mapping, compressing, cache_mode)
    caches = (key_cache, value_cache)
    return ScatterPlan(tuple(Result(tuple(cache.shape), cache.dtype) for cache in caches), mode)

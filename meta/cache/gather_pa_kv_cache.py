"""npu_gather_pa_kv_cache and its functional form: argument rules and results.

Both caches have one dtype, float16, bfloat16 or int8: (blocks, block size, heads, channels) with key and value of
(tokens, heads, channels), or in mode PA_NZ (blocks, heads * channels / c, block size, c) with key and value of
(tokens, heads * channels). block_tables is (sequences, columns). seq_lens has a length for each sequence, or one more
element with is_seq_lens_cumsum; seq_offset has one for each sequence. All indices are int32. Ascend 950
also takes other dtypes of one, two and four bytes; its int64 indices and caches of other numbers of blocks are not
described.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.cache.paged_cache import check_alike, check_dtype
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.cache import gather_pa_kv_cache as reference
from graph_quant.reference.cache.paged_cache import NORM, NZ_BYTES, PA_NZ
from torch import Tensor


@dataclass(frozen=True)
class GatherPlan(Plan):
    """``mode`` is the layout of the caches."""

    mode: str


def _check_mode(
    rules: Rules,
    caches: tuple[Tensor, Tensor],
    block_tables: Tensor,
    seq_lens: Tensor,
    rows: tuple[Tensor, Tensor],
    seq_offset: Tensor | None,
    is_cumulative: bool,
) -> str:
    check_dtype(rules, "key_cache", caches[0])
    rules.rank("key", rows[0], 2, 3)
    mode = NORM if rows[0].dim() == 3 else PA_NZ
    for name, cache, tokens in zip(("key", "value"), caches, rows, strict=True):
        rules.dtype(f"{name}_cache", cache, (caches[0].dtype,), ", the dtype of key_cache")
        rules.rank(f"{name}_cache", cache, 4)
        rules.not_empty(f"{name}_cache", cache)
        rules.dtype(name, tokens, (cache.dtype,), f", the dtype of {name}_cache")
        _check_tokens(rules, name, cache, tokens, mode)
    rules.rank("value", rows[1], rows[0].dim(), why=", as key has")
    rules.equal("value.size(0)", rows[1].size(0), "key.size(0)", rows[0].size(0))
    check_alike(rules, *caches, mode)
    _check_indices(rules, block_tables, seq_lens, seq_offset, is_cumulative)
    return mode


def _check_tokens(rules: Rules, name: str, cache: Tensor, tokens: Tensor, mode: str) -> None:
    if mode == NORM:
        rules.rank(name, tokens, 3)
        for dim in (1, 2):
            rules.equal(f"{name}.size({dim})", tokens.size(dim), f"{name}_cache.size({dim + 1})", cache.size(dim + 1))
        return
    rules.rank(name, tokens, 2)
    part = NZ_BYTES // cache.element_size()
    rules.equal(f"{name}_cache.size(3)", cache.size(3), f"{NZ_BYTES} bytes", part)
    rules.equal(f"{name}.size(1)", tokens.size(1), f"what {name}_cache keeps of a token", cache.size(1) * part)


def _check_indices(
    rules: Rules, block_tables: Tensor, seq_lens: Tensor, seq_offset: Tensor | None, is_cumulative: bool
) -> None:
    rules.dtype("block_tables", block_tables, (torch.int32,), " on A2 and A3")
    rules.rank("block_tables", block_tables, 2)
    rules.not_empty("block_tables", block_tables)
    rules.dtype("seq_lens", seq_lens, (torch.int32,), " on A2 and A3")
    rules.rank("seq_lens", seq_lens, 1)
    wanted = "block_tables.size(0) + 1" if is_cumulative else "block_tables.size(0)"
    rules.equal("seq_lens.size(0)", seq_lens.size(0), wanted, block_tables.size(0) + is_cumulative)
    if seq_offset is not None:
        rules.dtype("seq_offset", seq_offset, (torch.int32,), " on A2 and A3")
        rules.rank("seq_offset", seq_offset, 1)
        rules.equal("seq_offset.size(0)", seq_offset.size(0), "block_tables.size(0)", block_tables.size(0))


@operator("npu_gather_pa_kv_cache", reference=reference.gather_pa_kv_cache, results=lambda _: (), chips=A2_A3_950)
@operator("npu_gather_pa_kv_cache_functional", reference=reference.gather_pa_kv_cache_functional, chips=A2_A3_950)
def gather_pa_kv_cache(
    rules: Rules,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    key: Tensor,
    value: Tensor,
    seq_offset: Tensor | None,
    is_seq_lens_cumsum: bool,
) -> GatherPlan:
    """Check a call against the documented rules and return its plan."""
    caches, rows = (key_cache, value_cache), (key, value)
    mode = _check_mode(rules, caches, block_tables, seq_lens, rows, seq_offset, is_seq_lens_cumsum)
    return GatherPlan(tuple(Result(tuple(row.shape), row.dtype) for row in rows), mode)

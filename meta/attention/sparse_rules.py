"""Rules shared by the operators of sparse attention: layouts, lengths in tensors, and keys in pages."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.attention.sequences import BSND, PAGED, TND
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
UNLIMITED = 2**63 - 1
MODES = (0, 3)
MOST_BLOCK, BLOCK_UNIT = 1024, 16


@dataclass(frozen=True)
class Form:
    """The layouts and lengths of a call; ``kv`` is the suffix of the arguments for keys."""

    query: Tensor
    key: Tensor
    lengths_query: Tensor | None
    lengths_key: Tensor | None
    block_table: Tensor | None
    layout_query: str
    layout_key: str
    kv: str = "key"


def check(
    rules: Rules,
    form: Form,
    width: int,
    sparse_mode: int,
    pre_tokens: int,
    next_tokens: int,
    *,
    key_width: int | None = None,
) -> None:
    """Checks queries of ``width`` channels, and one head of keys of ``key_width`` channels, by layouts and lengths."""
    rules.one_of("layout_query", form.layout_query, (BSND, TND))
    rules.one_of(f"layout_{form.kv}", form.layout_key, (PAGED, BSND, TND))
    rules.require(
        form.layout_key in (PAGED, form.layout_query),
        lambda: f"layout_{form.kv} must be {form.layout_query}, as layout_query, or {PAGED}, got {form.layout_key}",
    )
    rules.rank("query", form.query, 3 if form.layout_query == TND else 4)
    rules.rank("key", form.key, 3 if form.layout_key == TND else 4)
    for name, tensor, channels in (("query", form.query, width), ("key", form.key, key_width or width)):
        rules.not_empty(name, tensor)
        rules.equal(f"{name}.size(-1)", tensor.size(-1), f"{channels}", channels)
    rules.equal("key.size(-2)", form.key.size(-2), "1", 1)
    _check_lengths(rules, form)
    rules.one_of("sparse_mode", sparse_mode, MODES)
    rules.one_of("pre_tokens", pre_tokens, (UNLIMITED,))
    rules.one_of("next_tokens", next_tokens, (UNLIMITED,))


def _check_lengths(rules: Rules, form: Form) -> None:
    name_query, name_key = "actual_seq_lengths_query", f"actual_seq_lengths_{form.kv}"
    if form.layout_query == TND and form.lengths_query is None:
        rules.refuse(f"{name_query} must be given in layout TND, got None")
    if form.layout_key != BSND and form.lengths_key is None:
        rules.refuse(f"{name_key} must be given in layout {form.layout_key}, got None")
    what, batches = "query.size(0)", form.query.size(0)
    if form.layout_query == TND and form.lengths_query is not None:
        what, batches = f"{name_query}.size(0)", form.lengths_query.size(0)
    for name, lengths in ((name_query, form.lengths_query), (name_key, form.lengths_key)):
        if lengths is not None:
            rules.dtype(name, lengths, (torch.int32,))
            rules.rank(name, lengths, 1)
            rules.at_least(f"{name}.size(0)", lengths.size(0), 1)
            rules.equal(f"{name}.size(0)", lengths.size(0), what, batches)
    if form.layout_key == BSND:
        rules.equal("key.size(0)", form.key.size(0), what, batches)
    _check_pages(rules, form, what, batches)


def _check_pages(rules: Rules, form: Form, what: str, batches: Size) -> None:
    table = form.block_table
    rules.require(
        (table is not None) == (form.layout_key == PAGED),
        lambda: f"block_table must be given in layout {PAGED} alone, got layout_{form.kv} {form.layout_key}",
    )
    if table is None:
        return
    rules.dtype("block_table", table, (torch.int32,))
    rules.rank("block_table", table, 2)
    rules.equal("block_table.size(0)", table.size(0), what, batches)
    rules.at_least("block_table.size(1)", table.size(1), 1)
    size = form.key.size(1)
    rules.require(size % BLOCK_UNIT == 0, lambda: f"key.size(1) must be a multiple of {BLOCK_UNIT}, got {size}")
    rules.require(size <= MOST_BLOCK, lambda: f"key.size(1) must be at most {MOST_BLOCK}, got {size}")


def check_like(rules: Rules, name: str, tensor: Tensor, like_name: str, like: Tensor, *last: Size) -> None:
    """``tensor`` has the sizes of ``like`` but for the last, instead of which it has ``last``."""
    rules.rank(name, tensor, like.dim() - 1 + len(last))
    for dim in range(like.dim() - 1):
        rules.equal(f"{name}.size({dim})", tensor.size(dim), f"{like_name}.size({dim})", like.size(dim))
    for size in last:
        rules.equal(f"{name}.size(-1)", tensor.size(-1), f"{size}", size)

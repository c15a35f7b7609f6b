"""Rules of masks by sparse mode, and of pse_shift."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from graph_quant.meta.rules import Rules, guard_or_false, sym_or
from graph_quant.reference.attention.inference_call import Attributes, Operands
from graph_quant.reference.attention.masks import TABLE, TREE
from graph_quant.reference.attention.results import query_sizes
from torch import Tensor

MASK_DTYPES = (torch.bool, torch.int8, torch.uint8)
MODES = (0, 1, 2, 3, 4)
BANDS = (0, 4)
# The only operator with trees of speculative tokens, for latent keys.
KNOWS_TREES, LATENT = "npu_fused_infer_attention_score_v2", 512
TREE_LAYOUTS = ("BSH", "BSND", "BNSD", "TND")


def check(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    """Refuses a mask that does not fit its sparse mode, and a shift that does not fit."""
    mode, mask = attrs.sparse_mode, operands.atten_mask
    if mode == TREE and attrs.op == KNOWS_TREES:
        _check_tree(rules, operands, attrs)
        return
    rules.require(mode in MODES, lambda: f"sparse_mode must be 0, 1, 2, 3 or 4, got {mode}")
    _, _, tokens, _ = query_sizes(operands.query, attrs)
    is_one = guard_or_false(tokens == 1) and not attrs.knows_modes
    has_no_mode = is_one and operands.query_rope is None and not attrs.is_packed
    if mask is None:
        if mode and not has_no_mode:
            rules.refuse(f"atten_mask must be given in sparse_mode {mode}, got None")
    else:
        rules.dtype("atten_mask", mask, MASK_DTYPES)
        if mode in BANDS and not is_one:
            _check_band(rules, operands, attrs, tokens)
        if mode >= 3 or (mode == 2 and not has_no_mode):
            _check_table(rules, mask, mode)
        else:
            _check_whole(rules, mask, operands, attrs, is_one)
    if operands.pse_shift is not None:
        _check_shift(rules, operands.pse_shift, operands, attrs)


def _check_tree(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    """Mode 9: a mask of queries among themselves, with rope parts, as the kernel of latent keys supports."""
    rules.since("9.0", lambda: "sparse_mode must be 0, 1, 2, 3 or 4, got 9")
    mask, batch_and_more = operands.atten_mask, query_sizes(operands.query, attrs)
    if mask is None or operands.query_rope is None:
        rules.refuse("atten_mask and query_rope must be given in sparse_mode 9, got None")
    for name, extra in (("pse_shift", operands.pse_shift), (attrs.name("quant_scale2"), operands.quant_scale2)):
        if extra is not None:
            rules.refuse(f"{name} must be None in sparse_mode 9, got a tensor")
    rules.one_of("input_layout", attrs.layout, TREE_LAYOUTS, " in sparse_mode 9")
    batch, _, tokens, channels = batch_and_more
    rules.equal("the channels of query", channels, f"{LATENT} in sparse_mode 9", LATENT)
    rules.dtype("atten_mask", mask, MASK_DTYPES)
    if not attrs.is_packed:
        rules.rank("atten_mask", mask, 3, why=" in sparse_mode 9")
        for dim, (what, size) in enumerate((("the batch of query", batch), *[("the tokens of query", tokens)] * 2)):
            rules.equal(f"atten_mask.size({dim})", mask.size(dim), what, size)
        return
    rules.rank("atten_mask", mask, 1, why=" in layout TND and sparse_mode 9")
    ends = (0, *(attrs.actual_seq_lengths or ()))
    squares = sum((end - before) ** 2 for before, end in pairwise(ends))
    rules.equal("atten_mask.size(0)", mask.size(0), "the squares of the lengths of queries", squares)


def _check_band(rules: Rules, operands: Operands, attrs: Attributes, tokens: Any) -> None:
    """A band is not empty; around the diagonal from the upper left corner it contains some query and some key."""
    before, after = attrs.pre_tokens, attrs.next_tokens
    rules.require(
        before + after >= 0, lambda: f"pre_tokens + next_tokens must not be negative, got {before} and {after}"
    )
    if attrs.sparse_mode == 0 and after < 0:
        rules.require(-after < tokens, lambda: f"next_tokens must be above -{tokens}, the queries, got {after}")
    if attrs.sparse_mode == 0 and before < 0:
        keys = key_tokens(operands, attrs)
        rules.require(-before < keys, lambda: f"pre_tokens must be above -{keys}, the keys, got {before}")


def _check_table(rules: Rules, mask: Tensor, mode: int) -> None:
    shape = list(mask.shape)
    rules.require(
        len(shape) in (2, 3, 4) and all(size == 1 for size in shape[:-2]) and shape[-1] == TABLE and shape[-2] == TABLE,
        lambda: f"atten_mask must be (2048, 2048) in sparse_mode {mode}, got {shape}",
    )


def _check_whole(rules: Rules, mask: Tensor, operands: Operands, attrs: Attributes, is_one: bool) -> None:
    """A dense mask, with an element per query and key."""
    if attrs.is_packed:
        where = f"in layout {attrs.input_layout} and sparse_mode {attrs.sparse_mode}"
        rules.refuse(f"atten_mask must be None {where}, got a tensor")
    batch, _, tokens, _ = query_sizes(operands.query, attrs)
    rules.rank("atten_mask", mask, 2, 4)
    if mask.dim() == 4:
        rules.equal("atten_mask.size(1)", mask.size(1), "one for all heads", 1)
    if mask.dim() > 2:
        rules.one_or("atten_mask.size(0)", mask.size(0), "the batch of query", batch)
    if mask.dim() == 2 and is_one:
        rules.equal("atten_mask.size(0)", mask.size(0), "the batch of query", batch)
    else:
        _at_least(rules, "atten_mask.size(-2)", mask.size(-2), tokens, "the tokens of query")
    keys = key_tokens(operands, attrs)
    _at_least(rules, "atten_mask.size(-1)", mask.size(-1), keys, "the tokens of key")
    if operands.block_table is None and isinstance(keys, int) and guard_or_false(mask.size(-1) > keys):
        rules.warn(
            "atten_mask",
            f"atten_mask has {mask.size(-1)} columns for {keys} keys: the first {keys} are read, so that a mask for "
            "later positions is cut",
        )


def _check_shift(rules: Rules, shift: Tensor, operands: Operands, attrs: Attributes) -> None:
    batch, heads, tokens, _ = query_sizes(operands.query, attrs)
    dtype = torch.float16 if operands.query.dtype == torch.int8 else operands.query.dtype
    rules.dtype("pse_shift", shift, (dtype,), why=f" beside a query of {operands.query.dtype}")
    rules.rank("pse_shift", shift, 4)
    if attrs.is_packed:
        rules.refuse(f"pse_shift must be None in layout {attrs.input_layout}, got a tensor")
    rules.one_or("pse_shift.size(0)", shift.size(0), "the batch of query", batch)
    rules.equal("pse_shift.size(1)", shift.size(1), attrs.name("num_heads"), heads)
    _at_least(rules, "pse_shift.size(2)", shift.size(2), tokens, "the tokens of query")
    _at_least(rules, "pse_shift.size(3)", shift.size(3), key_tokens(operands, attrs), "the tokens of key")


def _at_least(rules: Rules, name: str, size: Any, least: Any, what: str) -> None:
    rules.require(sym_or(size == least, size > least), lambda: f"{name} must be at least {least}, {what}, got {size}")


def key_tokens(operands: Operands, attrs: Attributes) -> Any:
    """The number of tokens of key, including a shared prefix."""
    if operands.block_table is not None:
        return operands.block_table.size(1) * attrs.block_size
    token_dim = attrs.layout.index("T" if attrs.is_packed else "S")
    prefix = operands.key_shared_prefix
    if prefix is None:
        return operands.key.size(token_dim)
    lengths = attrs.actual_shared_prefix_len
    return operands.key.size(token_dim) + (prefix.size(token_dim) if lengths is None else lengths[0])

"""Combinations that inference kernels do not support: layouts and masks with rope parts, quantised caches, int8.

Prompts and single tokens go to different kernels; a quantised cache has those of its own, older ones.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.meta.rules import Rules, guard_or_false
from graph_quant.reference.attention import antiquant
from graph_quant.reference.attention.inference_call import Attributes, Operands
from graph_quant.reference.attention.results import query_sizes, value_channels

FUSED, INCRE = "npu_fused_infer_attention_score", "npu_incre_flash_attention"
LATENT = 512
TO_NBSD = ("BSH_NBSD", "BSND_NBSD", "BNSD_NBSD")
OF_LATENT = ("BSH", "BSND", "BNSD", "TND", *TO_NBSD, "TND_NTD")
OF_SPLIT = ("BSH", "BSND", "BNSD", "BNSD_BSND", "TND", "NTD", "BSH_BNSD", "BSND_BNSD", "NTD_TND")
OF_INT8_LATENT = ("BSH", "BSND", "TND", "BSH_NBSD", "BSND_NBSD", "TND_NTD")
LATENT_MODES, INT8_LATENT_MODES = (0, 3, 4, 9), (0, 3, 9)
WHOLE_MASKS = (0, 1)
BAND = 4
NZ_DIMENSIONS, NZ_BLOCK = 5, 128
COMMON_WIDTHS = (64, 128)
INT4_WIDTH, INT8_WIDTH = 64, 32
CACHE_BLOCK, MOST_CACHE_BLOCK = 32, 512
PROMPT_MODES = (antiquant.PER_CHANNEL, antiquant.PER_TOKEN)
OF_INT8_ALONE = (antiquant.PER_HEAD, antiquant.PAGED_PER_TOKEN, antiquant.PAGED_PER_TOKEN_HEAD)


def is_of_newer_kernel(operands: Operands, attrs: Attributes) -> bool:
    """Whether a call goes to the kernel of CANN 9.0, which takes floats in all layouts alike."""
    return attrs.op.startswith(FUSED) and operands.key.dtype == operands.query.dtype != torch.int8


def check(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    """Refuses combinations of valid arguments that no kernel supports."""
    is_fused = attrs.op.startswith(FUSED)
    if is_fused:
        _check_layout(rules, operands, attrs)
        _check_result(rules, operands, attrs)
        _check_forms(rules, operands, attrs)
    if (is_fused or attrs.op == INCRE) and _is_quantised(operands) and operands.query_rope is None:
        _check_blocks(rules, operands, attrs)
        if _has_one_token(operands, attrs):
            _check_token_cache(rules, operands, attrs)
        elif not attrs.is_packed and operands.key.dim() != NZ_DIMENSIONS:
            _check_prompt_cache(rules, operands, attrs)


def _is_quantised(operands: Operands) -> bool:
    return operands.query.dtype != torch.int8 and operands.key.dtype in (torch.int8, torch.int32)


def _has_one_token(operands: Operands, attrs: Attributes) -> bool:
    return not attrs.is_packed and guard_or_false(query_sizes(operands.query, attrs)[2] == 1)


def _check_layout(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    layout, width = attrs.input_layout, query_sizes(operands.query, attrs)[3]
    if operands.query_rope is not None:
        allowed = OF_LATENT if width == LATENT else OF_SPLIT
        rules.one_of("input_layout", layout, allowed, f" beside query_rope and {width} channels a head")
        if width == LATENT:
            rules.one_of("sparse_mode", attrs.sparse_mode, LATENT_MODES, f" for {LATENT} channels a head")
        if operands.query.dtype == torch.int8:
            _check_int8_latent(rules, operands, attrs, width)
        return
    rules.require(
        layout not in TO_NBSD, lambda: f"input_layout must not end in NBSD without query_rope, got {layout!r}"
    )
    if layout in ("BSH_BNSD", "BSND_BNSD"):
        rules.require(
            width in COMMON_WIDTHS,
            lambda: f"query must have 64 or 128 channels a head in layout {layout} without query_rope, got {width}",
        )


def _check_int8_latent(rules: Rules, operands: Operands, attrs: Attributes, width: Any) -> None:
    """An int8 query and its rope part are for one kernel: of a latent cache in NZ."""
    when = " with an int8 query and query_rope"
    rules.equal("the channels of query", width, f"{LATENT}{when}", LATENT)
    rules.one_of("input_layout", attrs.input_layout, OF_INT8_LATENT, when)
    rules.one_of("sparse_mode", attrs.sparse_mode, INT8_LATENT_MODES, when)
    if operands.block_table is None:
        rules.refuse(f"block_table must be given{when}, got None")
    rules.rank("key", operands.key, NZ_DIMENSIONS, why=when)
    rules.equal("block_size", attrs.block_size, f"{NZ_BLOCK}{when}", NZ_BLOCK)
    if attrs.is_packed:
        return
    if _has_one_token(operands, attrs):
        rules.one_of("sparse_mode", attrs.sparse_mode, (0,), f"{when} of one token")
        if operands.atten_mask is not None:
            rules.refuse(f"atten_mask must be None{when} of one token, got a tensor")
        return
    rules.one_of("sparse_mode", attrs.sparse_mode, INT8_LATENT_MODES[1:], f"{when} of several tokens")


def _check_forms(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    """A mask of two dimensions knows no rope parts, a float cache in NZ without them few widths."""
    mask, width = operands.atten_mask, query_sizes(operands.query, attrs)[3]
    if operands.query_rope is not None:
        if mask is not None and attrs.sparse_mode in WHOLE_MASKS:
            rules.rank("atten_mask", mask, 3, 4, why=" beside query_rope")
    elif operands.key.dim() == NZ_DIMENSIONS and operands.key.dtype == operands.query.dtype:
        rules.require(
            width in COMMON_WIDTHS,
            lambda: f"query must have 64 or 128 channels a head with blocks in NZ and no query_rope, got {width}",
        )
    for name in ("query_padding_size", "kv_padding_size"):
        if getattr(operands, name) is not None:
            rules.rank(name, getattr(operands, name), 1)


def _check_result(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    """Quantised results of prompts."""
    scale, name = operands.quant_scale2, attrs.name("quant_scale2")
    if scale is None or _has_one_token(operands, attrs):
        return
    width, before, after = value_channels(operands, attrs), attrs.pre_tokens, attrs.next_tokens
    rules.require(
        width % INT8_WIDTH == 0, lambda: f"value must have a multiple of 32 channels a head with {name}, got {width}"
    )
    rules.require(
        attrs.sparse_mode != BAND or (before >= 0 and after >= 0),
        lambda: (
            f"pre_tokens and next_tokens must not be negative in sparse_mode 4 with {name}, got {before} and {after}"
        ),
    )
    if guard_or_false(scale.numel() == 1):
        return
    many = f"with a {name} for each channel"
    for padding in ("query_padding_size", "kv_padding_size"):
        if getattr(operands, padding) is not None:
            rules.refuse(f"{padding} must be None {many}, got a tensor")
    flag = attrs.name("softmax_lse_flag")
    rules.require(not attrs.softmax_lse_flag, lambda: f"{flag} must be False {many}, got True")


def _check_blocks(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    size = attrs.block_size
    rules.require(
        operands.block_table is None or (size % CACHE_BLOCK == 0 and size <= MOST_CACHE_BLOCK),
        lambda: f"block_size must be a multiple of 32 up to {MOST_CACHE_BLOCK} with a cache of int8, got {size}",
    )


def _modes(operands: Operands, attrs: Attributes) -> dict[str, int]:
    """The modes that count, by name."""
    if operands.key_antiquant_scale is None:
        return {"antiquant_mode": attrs.antiquant_mode}
    return {
        attrs.name("key_antiquant_mode"): attrs.key_antiquant_mode,
        attrs.name("value_antiquant_mode"): attrs.value_antiquant_mode,
    }


def _check_token_cache(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    """A quantised cache of one token."""
    modes = _modes(operands, attrs)
    rules.one_of("inner_precise", attrs.inner_precise, (0, 1), " for one token and a quantised cache")
    if operands.key.dtype == torch.int8:
        rules.require(
            len({*modes.values()}) == 1 or operands.query.dtype == torch.float16,
            lambda: f"query must be float16 where the modes of an int8 cache differ, got {operands.query.dtype}",
        )
        return
    width = query_sizes(operands.query, attrs)[3]
    rules.require(
        width % INT4_WIDTH == 0,
        lambda: f"query must have a multiple of 64 channels a head with a cache of int4, got {width}",
    )
    for name in ("kv_padding_size", "quant_scale2"):
        if getattr(operands, name) is not None:
            rules.refuse(f"{attrs.name(name)} must be None with a cache of int4, got a tensor")
    for name, mode in modes.items():
        rules.require(mode not in OF_INT8_ALONE, lambda: f"{name} must be 0, 1 or 3 for a cache of int4, got {mode}")  # noqa: B023


def _check_prompt_cache(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    """A quantised cache of several tokens."""
    when = " for several tokens and a quantised cache"
    rules.dtype("key", operands.key, (torch.int8,), why=when)
    modes = _modes(operands, attrs)
    if operands.key_antiquant_scale is None:
        rules.dtype("query", operands.query, (torch.float16,), why=" for several tokens and antiquant_scale")
        rules.one_of("antiquant_mode", attrs.antiquant_mode, (0,), when)
    else:
        for name, mode in modes.items():
            rules.one_of(name, mode, PROMPT_MODES, when)
        rules.require(
            len({*modes.values()}) == 1, lambda: f"{' and '.join(modes)} must be equal{when}, got {[*modes.values()]}"
        )
        for name in ("query_padding_size", "kv_padding_size"):
            if getattr(operands, name) is not None:
                rules.refuse(f"{name} must be None{when}, got a tensor")
    if operands.block_table is not None and not _takes_blocks(operands, attrs):
        rules.refuse(
            f"block_table must be None{when} (but for float16, BSH or BSND, sparse_mode 3, inner_precise 1 and a scale "
            "for each channel), got a tensor"
        )


def _takes_blocks(operands: Operands, attrs: Attributes) -> bool:
    return (
        operands.query.dtype == torch.float16
        and {*_modes(operands, attrs).values()} == {antiquant.PER_CHANNEL}
        and attrs.input_layout in ("BSH", "BSND")
        and attrs.inner_precise == 1
        and attrs.sparse_mode == 3
        and operands.pse_shift is None
    )

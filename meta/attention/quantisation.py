"""Rules of quantisation: int8 query, key and value; an int8 or int4 cache; an int8 result."""

from __future__ import annotations

import math
from typing import Any

import torch
from graph_quant.meta.attention.masking import key_tokens
from graph_quant.meta.rules import Rules, sym_or
from graph_quant.reference.attention import antiquant
from graph_quant.reference.attention.inference_call import Attributes, Operands
from graph_quant.reference.attention.results import query_sizes, value_channels
from torch import Tensor

INT8_LAYOUTS = ("BSH", "BNSD", "BSND", "BNSD_BSND")
PROMPT = ("dequant_scale1", "quant_scale1", "dequant_scale2")
HALVES = ("antiquant_scale", "antiquant_offset")
SEPARATE = ("key_antiquant_scale", "key_antiquant_offset", "value_antiquant_scale", "value_antiquant_offset")


def check(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    """Refuses scales that are missing, too many, or do not fit."""
    if operands.query.dtype != torch.int8:
        _absent(rules, operands, attrs, (*PROMPT, "dequant_scale_query"), "without an int8 query")
        if operands.key.dtype in (torch.int8, torch.int32):
            _check_cache(rules, operands, attrs)
        else:
            _absent(rules, operands, attrs, (*HALVES, *SEPARATE), f"with a key of {operands.key.dtype}")
    elif operands.query_rope is None:
        _check_prompt(rules, operands, attrs)
    else:
        _check_latent(rules, operands, attrs)
    _check_result(rules, operands, attrs)


def _absent(rules: Rules, operands: Operands, attrs: Attributes, names: tuple[str, ...], when: str) -> None:
    for name in names:
        if getattr(operands, name) is not None:
            rules.refuse(f"{attrs.name(name)} must be None {when}, got a tensor")


def _present(rules: Rules, operands: Operands, attrs: Attributes, name: str, when: str) -> Tensor:
    tensor: Tensor | None = getattr(operands, name)
    if tensor is None:
        rules.refuse(f"{attrs.name(name)} must be given {when}, got None")
    return tensor


def _check_prompt(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    when = "with an int8 query"
    if attrs.op.endswith("_v2"):
        rules.refuse("query_rope must be given with an int8 query, got None")
    for name in PROMPT:
        scale = _present(rules, operands, attrs, name, when)
        allowed = (torch.float32,) if name == "quant_scale1" else (torch.float32, torch.uint64, torch.int64)
        rules.dtype(attrs.name(name), scale, allowed)
        _one_element(rules, attrs.name(name), scale)
    _absent(rules, operands, attrs, (*HALVES, *SEPARATE, "dequant_scale_query", "block_table"), when)
    _, _, tokens, _ = query_sizes(operands.query, attrs)
    rules.require(tokens != 1, lambda: f"query must have more than one token to be int8, got {tokens}")
    _check_int8_layout(rules, attrs, when)


def _check_latent(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    when = "with an int8 query and query_rope"
    query, query_scale = operands.query, _present(rules, operands, attrs, "dequant_scale_query", when)
    rules.dtype("dequant_scale_query", query_scale, (torch.float32,))
    batch, heads, tokens, _ = query_sizes(query, attrs)
    shape = {"BNSD": (batch, heads, tokens), "TND": (tokens, heads), "NTD": (heads, tokens)}.get(
        attrs.layout, (batch, tokens, heads)
    )
    rules.rank("dequant_scale_query", query_scale, len(shape))
    for dim, size in enumerate(shape):
        rules.equal(f"dequant_scale_query.size({dim})", query_scale.size(dim), "that of query without channels", size)
    for name in ("key_antiquant_scale", "value_antiquant_scale"):
        scale = _present(rules, operands, attrs, name, when)
        rules.dtype(attrs.name(name), scale, (torch.float32,))
        _one_element(rules, attrs.name(name), scale)
    absent = (*PROMPT, *HALVES, "key_antiquant_offset", "value_antiquant_offset", "quant_scale2", "quant_offset2")
    _absent(rules, operands, attrs, absent, when)


def _check_cache(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    """Separate scales of key and value take precedence over the joint one."""
    key_scale, value_scale = operands.key_antiquant_scale, operands.value_antiquant_scale
    if key_scale is None and value_scale is None:
        scale = _present(rules, operands, attrs, "antiquant_scale", f"with a key of {operands.key.dtype}")
        _check_halves(rules, scale, operands, attrs)
        return
    when = f"with a key of {operands.key.dtype}"
    key_mode, value_mode = attrs.key_antiquant_mode, attrs.value_antiquant_mode
    key_name, value_name = attrs.name("key_antiquant_mode"), attrs.name("value_antiquant_mode")
    for name, mode in ((key_name, key_mode), (value_name, value_mode)):
        rules.require(mode in range(6), lambda: f"{name} must lie in [0, 5], got {mode}")  # noqa: B023
    rules.require(
        key_mode == value_mode or (key_mode, value_mode) == (0, 1),
        lambda: f"{value_name} must equal {key_name} or be 1 where that is 0, got {value_mode} and {key_mode}",
    )
    for side, mode in (("key", key_mode), ("value", value_mode)):
        scale = _present(rules, operands, attrs, f"{side}_antiquant_scale", when)
        width = query_sizes(operands.query, attrs)[3] if side == "key" else value_channels(operands, attrs)
        name = attrs.name(f"{side}_antiquant_scale")
        _check_parameter(rules, name, scale, mode, width, operands, attrs)
        offset: Tensor | None = getattr(operands, f"{side}_antiquant_offset")
        _check_offset(rules, attrs.name(f"{side}_antiquant_offset"), offset, name, scale)
    if (operands.key_antiquant_offset is None) != (operands.value_antiquant_offset is None):
        missing = "key" if operands.key_antiquant_offset is None else "value"
        rules.refuse(f"{attrs.name(f'{missing}_antiquant_offset')} must be given, as the other is, got None")


def _check_halves(rules: Rules, scale: Tensor, operands: Operands, attrs: Attributes) -> None:
    """One tensor with the scale of key in its first half and that of value in its second."""
    mode = attrs.antiquant_mode
    rules.require(mode in (0, 1), lambda: f"antiquant_mode must be 0 or 1, got {mode}")
    rules.rank("antiquant_scale", scale, 1 if mode == antiquant.PER_CHANNEL else 2, 4)
    rules.equal("antiquant_scale.size(0)", scale.size(0), "one for key and one for value", 2)
    width = query_sizes(operands.query, attrs)[3]
    _check_parameter(rules, "antiquant_scale", scale[0], mode, width, operands, attrs)
    _check_offset(rules, "antiquant_offset", operands.antiquant_offset, "antiquant_scale", scale)


def _check_offset(rules: Rules, name: str, offset: Tensor | None, scale_name: str, scale: Tensor) -> None:
    if offset is not None:
        rules.dtype(name, offset, (scale.dtype,), why=f", the dtype of {scale_name}")
        rules.rank(name, offset, scale.dim(), why=f", as many as {scale_name}")
        for dim in range(scale.dim()):
            rules.equal(f"{name}.size({dim})", offset.size(dim), f"{scale_name}.size({dim})", scale.size(dim))


def _check_parameter(
    rules: Rules, name: str, scale: Tensor, mode: int, width: Any, operands: Operands, attrs: Attributes
) -> None:
    heads = attrs.kv_heads
    if mode in (antiquant.PER_CHANNEL, antiquant.PER_HEAD):
        rules.dtype(name, scale, (operands.query.dtype,), why=f", the dtype of query, in mode {mode}")
        count = heads * width if mode == antiquant.PER_CHANNEL else heads
        if mode == antiquant.PER_CHANNEL:
            rules.one_or(f"{name}.numel()", scale.numel(), "num_key_value_heads * D", count)
            last = scale.size(-1) if scale.dim() else 1
            rules.require(
                sym_or(last == scale.numel(), last == width),
                lambda: f"{name} must end in D, {width}, or be flat, got {list(scale.shape)}",
            )
        else:
            rules.equal(f"{name}.numel()", scale.numel(), "num_key_value_heads", count)
        return
    rules.dtype(name, scale, (torch.float32,), why=f" in mode {mode}")
    if mode in (antiquant.PER_TOKEN, antiquant.PER_TOKEN_HEAD):
        batch = query_sizes(operands.query, attrs)[0]
        rows = batch if mode == antiquant.PER_TOKEN else batch * heads
        least = key_tokens(operands, attrs)
        rules.rank(name, scale, 2, 3)
        rules.equal(f"the rows of {name}", math.prod(scale.shape[:-1]), "a row for each batch and head", rows)
        rules.require(
            scale.size(-1) >= least, lambda: f"{name}.size(-1) must be at least {least}, got {scale.size(-1)}"
        )
        return
    if operands.block_table is None:
        rules.refuse(f"block_table must be given in mode {mode} of {name}, got None")
    shape = (operands.key.size(0), *([heads] if mode == antiquant.PAGED_PER_TOKEN_HEAD else []), attrs.block_size)
    rules.rank(name, scale, len(shape), why=f" in mode {mode}")
    for dim, size in enumerate(shape):
        rules.equal(f"{name}.size({dim})", scale.size(dim), "that of the cache", size)


def _check_result(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    scale, offset = operands.quant_scale2, operands.quant_offset2
    name = attrs.name("quant_scale2")
    if scale is None:
        if offset is not None:
            rules.refuse(f"{name} must be given with {attrs.name('quant_offset2')}, got None")
        return
    allowed = (torch.float32, torch.bfloat16) if operands.query.dtype == torch.bfloat16 else (torch.float32,)
    rules.dtype(name, scale, allowed)
    count = attrs.num_heads * value_channels(operands, attrs)
    rules.one_or(f"{name}.numel()", scale.numel(), f"{attrs.name('num_heads')} * D", count)
    _check_offset(rules, attrs.name("quant_offset2"), offset, name, scale)
    _check_int8_layout(rules, attrs, f"with {name}")


def _check_int8_layout(rules: Rules, attrs: Attributes, when: str) -> None:
    rules.require(
        attrs.input_layout in INT8_LAYOUTS,
        lambda: f"input_layout must be BSH, BNSD, BSND or BNSD_BSND {when}, got {attrs.input_layout!r}",
    )


def _one_element(rules: Rules, name: str, scale: Tensor) -> None:
    rules.require(scale.numel() == 1, lambda: f"{name} must have one element, got {list(scale.shape)}")

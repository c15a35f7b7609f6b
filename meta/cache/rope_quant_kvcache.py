"""npu_rope_quant_kvcache and npu_dequant_rope_quant_kvcache: argument rules and results.

x is (batches, tokens, channels) or (batches, channels): the channels of queries, keys and values with the sizes in
size_splits, 4096 at most. cos and sin have the size of a head for each token. The caches are int8: (batches, tokens,
heads, head size) in mode contiguous and (blocks, block size, heads, head size) in mode page. Scales and offsets are
float32 with one element per channel of keys. indices has the start position of each batch in mode contiguous, the slot
of each token in mode page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.cache import rope_quant_kvcache as reference
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
MOST_CHANNELS = 4096
# Keys and values are quantised 64 elements at a time; a remainder would not be quantised.
QUANT_STEP = 64
ALIGNED = 16


def _check_modes(rules: Rules, quant_mode: int, input_layout: str, cache_mode: str) -> None:
    rules.one_of("quant_mode", quant_mode, (0,), ", which is static")
    rules.one_of("input_layout", input_layout, ("BSND",))
    rules.one_of("cache_mode", cache_mode, reference.MODES)


def _check_splits(rules: Rules, x: Tensor, k_cache: Tensor, size_splits: Sequence[int]) -> None:
    rules.rank("x", x, 2, 3)
    rules.require(len(size_splits) == 3, lambda: f"size_splits must have 3 elements, got {list(size_splits)}")
    queries, keys, values = size_splits
    rules.require(queries >= 0, lambda: f"size_splits[0] must not be negative, got {queries}")
    rules.equal("size_splits[2]", values, "size_splits[1]", keys)
    rules.equal("x.size(-1)", x.size(-1), "the sum of size_splits", queries + keys + values)
    rules.require(
        queries + keys + values <= MOST_CHANNELS,
        lambda: f"x.size(-1) must be at most {MOST_CHANNELS}, got {x.size(-1)}",
    )
    rules.dtype("k_cache", k_cache, (torch.int8,))
    rules.rank("k_cache", k_cache, 4)
    width = k_cache.size(3)
    rules.require(
        width >= ALIGNED and width % ALIGNED == 0,
        lambda: f"k_cache.size(3) must be a multiple of {ALIGNED}, got {width}",
    )
    rules.equal("k_cache.size(2) * k_cache.size(3)", k_cache.size(2) * width, "size_splits[1]", keys)
    rules.require(
        queries % width == 0,
        lambda: f"size_splits[0] must be a multiple of {width}, the channels of a head, got {queries}",
    )
    rules.require(keys % QUANT_STEP == 0, lambda: f"size_splits[1] must be a multiple of {QUANT_STEP}, got {keys}")
    rules.require(
        x.size(-1) % QUANT_STEP == 0, lambda: f"x.size(-1) must be a multiple of {QUANT_STEP}, got {x.size(-1)}"
    )


def _check_rope(rules: Rules, x: Tensor, cos: Tensor, sin: Tensor, width: int | torch.SymInt) -> None:
    if x.dtype == torch.int32:
        rules.dtype("cos", cos, HALVES)
    else:
        rules.dtype("cos", cos, (x.dtype,), ", the dtype of x")
    rules.dtype("sin", sin, (cos.dtype,), ", the dtype of cos")
    sizes = {f"x.size({dim})": size for dim, size in enumerate(x.shape[:-1])}
    expected = [*sizes.items(), *([("1", 1)] if x.dim() == 3 else []), ("k_cache.size(3)", width)]
    for name, angles in (("cos", cos), ("sin", sin)):
        rules.rank(name, angles, len(expected))
        for dim, (what, size) in enumerate(expected):
            rules.equal(f"{name}.size({dim})", angles.size(dim), what, size)


def _check_caches(rules: Rules, x: Tensor, k_cache: Tensor, v_cache: Tensor, indices: Tensor, cache_mode: str) -> None:
    rules.dtype("v_cache", v_cache, (torch.int8,))
    rules.rank("v_cache", v_cache, 4)
    for dim in range(4):
        rules.equal(f"v_cache.size({dim})", v_cache.size(dim), f"k_cache.size({dim})", k_cache.size(dim))
    rules.dtype("indices", indices, (torch.int32,))
    rules.rank("indices", indices, 1)
    if cache_mode == reference.PAGE:
        rules.equal("indices.size(0)", indices.size(0), "the tokens of x", x.numel() // x.size(-1))
        return
    rules.equal("indices.size(0)", indices.size(0), "x.size(0)", x.size(0))
    rules.require(
        k_cache.size(0) >= x.size(0),
        lambda: f"k_cache.size(0) must be at least x.size(0), got {k_cache.size(0)} and {x.size(0)}",
    )
    if x.dim() == 3:
        rules.require(
            k_cache.size(1) >= x.size(1),
            lambda: f"k_cache.size(1) must be at least x.size(1), got {k_cache.size(1)} and {x.size(1)}",
        )


def _check_numbers(rules: Rules, numbers: Mapping[str, Tensor | None], size: int | torch.SymInt, what: str) -> None:
    for name, parameter in numbers.items():
        if parameter is not None:
            rules.dtype(name, parameter, (torch.float32,))
            rules.equal(f"{name}.numel()", parameter.numel(), what, size)


def _plan(
    rules: Rules,
    x: Tensor,
    angles: tuple[Tensor, Tensor],
    caches: tuple[Tensor, Tensor],
    indices: Tensor,
    numbers: Mapping[str, Tensor | None],
    size_splits: Sequence[int],
    modes: tuple[int, str, str],
    kv_output: bool,
) -> Plan:
    _check_modes(rules, *modes)
    k_cache, v_cache = caches
    _check_splits(rules, x, k_cache, size_splits)
    _check_rope(rules, x, *angles, k_cache.size(3))
    _check_caches(rules, x, k_cache, v_cache, indices, modes[2])
    _check_numbers(rules, numbers, size_splits[1], "size_splits[1]")
    rules.require(
        (numbers["offset_k"] is None) == (numbers["offset_v"] is None),
        lambda: "offset_k must be given with offset_v, as the kernel takes both or neither, got one of them",
    )
    heads, dtype = k_cache.shape[2:], angles[0].dtype
    rows = Result((*x.shape[:-1], *heads) if kv_output else (0,), dtype)
    queries = Result((*x.shape[:-1], size_splits[0] // k_cache.size(3), k_cache.size(3)), dtype)
    return Plan((queries, rows, rows, *(Result(tuple(cache.shape), cache.dtype) for cache in caches)))


@operator("npu_rope_quant_kvcache", reference=reference.rope_quant_kvcache)
def rope_quant_kvcache(
    rules: Rules,
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    indices: Tensor,
    scale_k: Tensor,
    scale_v: Tensor,
    size_splits: Sequence[int],
    offset_k: Tensor | None,
    offset_v: Tensor | None,
    quant_mode: int,
    input_layout: str,
    kv_output: bool,
    cache_mode: str,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("x", x, HALVES)
    numbers = {"scale_k": scale_k, "scale_v": scale_v, "offset_k": offset_k, "offset_v": offset_v}
    modes = (quant_mode, input_layout, cache_mode)
    return _plan(rules, x, (cos, sin), (k_cache, v_cache), indices, numbers, size_splits, modes, kv_output)


@operator("npu_dequant_rope_quant_kvcache", reference=reference.dequant_rope_quant_kvcache)
def dequant_rope_quant_kvcache(
    rules: Rules,
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    indices: Tensor,
    scale_k: Tensor,
    scale_v: Tensor,
    size_splits: Sequence[int],
    offset_k: Tensor | None,
    offset_v: Tensor | None,
    weight_scale: Tensor | None,
    activation_scale: Tensor | None,
    bias: Tensor | None,
    quant_mode: int,
    input_layout: str,
    kv_output: bool,
    cache_mode: str,
) -> Plan:
    """Check a call with int32 x, its weight_scale, and an optional scale for each token and bias; return its plan."""
    rules.dtype("x", x, (torch.int32,))
    numbers = {"scale_k": scale_k, "scale_v": scale_v, "offset_k": offset_k, "offset_v": offset_v}
    modes = (quant_mode, input_layout, cache_mode)
    plan = _plan(rules, x, (cos, sin), (k_cache, v_cache), indices, numbers, size_splits, modes, kv_output)
    if weight_scale is None:
        rules.refuse("weight_scale must be given, got None")
    _check_numbers(rules, {"weight_scale": weight_scale}, x.size(-1), "x.size(-1)")
    _check_numbers(rules, {"activation_scale": activation_scale}, x.numel() // x.size(-1), "the tokens of x")
    if bias is not None:
        rules.dtype("bias", bias, (*FLOATS, torch.int32))
        rules.equal("bias.numel()", bias.numel(), "x.size(-1)", x.size(-1))
    return plan

"""What may be passed to npu_mla_prolog in its versions, and what they give.

The sizes that the documents fix (hidden size, rank of query) are not asked for: kernels are built for any, and public
models run with others. What a call quantises is said by its dtypes; the modes of the third version must agree.

The tiling takes the weights but weight_uk in FRACTAL_NZ alone, and pages of 16 to 1024 slots, a multiple of 16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from graph_quant.meta.operator import Result
from graph_quant.meta.rules import NZ, TILING_ERROR, Rules
from graph_quant.reference.attention.cache_slots import BY_BLOCK, BY_SLOT, IN_PLACE
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import sym_and

HEADS = (1, 2, 4, 8, 16, 32, 64, 128)
MOST_HEADS = 128
SMALLEST_PAGE, LARGEST_PAGE = 16, 1024
ROPE, LATENT = 64, 512
SCALES = ("dequant_scale_x", "dequant_scale_w_dq", "dequant_scale_w_uq_qr", "dequant_scale_w_dkv_kr")
Arguments = Mapping[str, Any]


def check(rules: Rules, arguments: Arguments, cache_modes: Sequence[str], *, is_third: bool) -> None:
    """Refuses tensors that do not fit each other; ``is_third``: in the third version."""
    _check_weights(rules, arguments, is_third)
    _check_ropes(rules, arguments)
    _check_caches(rules, arguments, cache_modes)
    _check_scales(rules, arguments, is_third)


def _shape(rules: Rules, name: str, tensor: Tensor, dtypes: tuple[torch.dtype, ...], sizes: Sequence[Any]) -> None:
    rules.dtype(name, tensor, dtypes)
    rules.rank(name, tensor, len(sizes))
    for dim, size in enumerate(sizes):
        rules.equal(f"{name}.size({dim})", tensor.size(dim), "what the other weights ask for", size)


def _check_weights(rules: Rules, arguments: Arguments, is_third: bool) -> None:
    x, uk = arguments["token_x"], arguments["weight_uk"]
    rules.dtype("token_x", x, (torch.bfloat16, torch.int8))
    rules.rank("token_x", x, 2, 3)
    rules.dtype("weight_uk", uk, (torch.bfloat16,))
    rules.rank("weight_uk", uk, 3)
    heads, width, latent = uk.shape
    if is_third:
        rules.at_least("weight_uk.size(0)", heads, 1)
        rules.require(heads <= MOST_HEADS, lambda: f"weight_uk.size(0) must be at most {MOST_HEADS}, got {heads}")
    else:
        rules.require(heads in HEADS, lambda: f"weight_uk.size(0) must be a power of 2 up to 128, got {heads}")
    rules.equal("weight_uk.size(2)", latent, "the latent channels", LATENT)
    rules.rank("weight_dq", arguments["weight_dq"], 2)
    rank = arguments["weight_dq"].size(1)
    full = (x.dtype,)
    _shape(rules, "weight_dq", arguments["weight_dq"], full, (x.size(-1), rank))
    up = (torch.int8,) if x.dtype == torch.int8 else (torch.bfloat16, torch.int8)
    _shape(rules, "weight_uq_qr", arguments["weight_uq_qr"], up, (rank, heads * (width + ROPE)))
    _shape(rules, "weight_dkv_kr", arguments["weight_dkv_kr"], full, (x.size(-1), latent + ROPE))
    for name in ("weight_dq", "weight_uq_qr", "weight_dkv_kr"):
        rules.format(name, arguments[name], NZ)
    _shape(rules, "rmsnorm_gamma_cq", arguments["rmsnorm_gamma_cq"], (torch.bfloat16,), (rank,))
    _shape(rules, "rmsnorm_gamma_ckv", arguments["rmsnorm_gamma_ckv"], (torch.bfloat16,), (latent,))


def _check_ropes(rules: Rules, arguments: Arguments) -> None:
    leading = arguments["token_x"].shape[:-1]
    for name in ("rope_sin", "rope_cos"):
        _shape(rules, name, arguments[name], (torch.bfloat16,), (*leading, ROPE))


def _check_caches(rules: Rules, arguments: Arguments, modes: Sequence[str]) -> None:
    mode, x = arguments["cache_mode"], arguments["token_x"]
    kv, kr, index = arguments["kv_cache"], arguments["kr_cache"], arguments["cache_index"]
    rules.require(mode in modes, lambda: f"cache_mode must be {' or '.join(modes)}, got {mode!r}")
    is_int8 = arguments["weight_uq_qr"].dtype == torch.int8
    rules.dtype("kv_cache", kv, (torch.bfloat16, torch.int8) if is_int8 else (torch.bfloat16,))
    rope_dtype = torch.bfloat16 if x.dtype == torch.int8 else kv.dtype
    rules.dtype("kr_cache", kr, (rope_dtype,), why=" beside this kv_cache")
    rules.rank("kv_cache", kv, 3 if mode == "TND" else 4)
    rules.rank("kr_cache", kr, kv.dim())
    rules.equal("kv_cache.size(-1)", kv.size(-1), "the latent channels", LATENT)
    rules.equal("kr_cache.size(-1)", kr.size(-1), "the rope channels", ROPE)
    rules.equal("kv_cache.size(-2)", kv.size(-2), "one head", 1)
    for dim in range(kv.dim() - 1):
        rules.equal(f"kr_cache.size({dim})", kr.size(dim), f"kv_cache.size({dim})", kv.size(dim))
    for name, cache in (("kv_cache", kv), ("kr_cache", kr)):
        rules.require(cache.is_contiguous(), lambda: f"{name} must be contiguous, got {cache.stride()}")  # noqa: B023
    if mode in IN_PLACE:
        rules.require(index is None, lambda: f"cache_index must be None in cache_mode {mode}, got a tensor")
        for dim in range(x.dim() - 1):
            rules.equal(f"kv_cache.size({dim})", kv.size(dim), f"token_x.size({dim})", x.size(dim))
        return
    page = kv.size(1)
    rules.require(
        sym_and(page >= SMALLEST_PAGE, page <= LARGEST_PAGE, page % SMALLEST_PAGE == 0),
        lambda: f"kv_cache.size(1) must be a multiple of {SMALLEST_PAGE} up to {LARGEST_PAGE} in pages, got {page}",
        TILING_ERROR,
    )
    if index is None:
        rules.refuse(f"cache_index must be given in cache_mode {mode}, got None")
    rules.dtype("cache_index", index, (torch.int64,))
    if mode in BY_SLOT:
        rules.rank("cache_index", index, x.dim() - 1, why=", as token_x without channels")
        for dim in range(x.dim() - 1):
            rules.equal(f"cache_index.size({dim})", index.size(dim), f"token_x.size({dim})", x.size(dim))


def _check_scales(rules: Rules, arguments: Arguments, is_third: bool) -> None:
    x, uq, uk = arguments["token_x"], arguments["weight_uq_qr"], arguments["weight_uk"]
    heads, width, latent = uk.shape
    rows, rank = x.numel() // x.size(-1) if x.dim() == 2 else x.size(0) * x.size(1), arguments["weight_dq"].size(1)
    is_full, is_up = x.dtype == torch.int8, uq.dtype == torch.int8
    is_latent, is_rope = arguments["kv_cache"].dtype == torch.int8, arguments["kr_cache"].dtype == torch.int8
    wanted: dict[str, tuple[bool, Sequence[Any]]] = {
        "dequant_scale_x": (is_full, (rows, 1)),
        "dequant_scale_w_dq": (is_full, (1, rank)),
        "dequant_scale_w_uq_qr": (is_up, (1, heads * (width + ROPE))),
        "dequant_scale_w_dkv_kr": (is_full, (1, latent + ROPE)),
        "quant_scale_ckr": (is_rope, (1, ROPE)),
    }
    for name, (is_wanted, sizes) in wanted.items():
        _scale(rules, name, arguments[name], is_wanted, sizes)
    # One scale is used where everything is int8. The second version's tiling asks for a row of them nevertheless.
    ckv_sizes = (1,) if is_full and is_third else (1, latent)
    _scale(rules, "quant_scale_ckv", arguments["quant_scale_ckv"], is_latent, ckv_sizes)
    smooth = arguments["smooth_scales_cq"]
    if smooth is not None:
        _scale(rules, "smooth_scales_cq", smooth, is_up, (1, rank))


def _scale(rules: Rules, name: str, scale: Tensor | None, is_wanted: bool, sizes: Sequence[Any] | None) -> None:
    if scale is None:
        if is_wanted:
            rules.refuse(f"{name} must be given for what is int8 here, got None")
        return
    if not is_wanted:
        rules.refuse(f"{name} must be None where nothing is int8 that it scales, got a tensor")
    rules.dtype(name, scale, (torch.float32,))
    if sizes is not None:
        _shape(rules, name, scale, (torch.float32,), sizes)


def results(
    arguments: Arguments, query_norm_flag: bool, no_scale: int
) -> tuple[Result, Result, Result, Result, Result]:
    """Query, its rope part and scale, the norm of query and its scale. ``no_scale`` elements stand for no scale."""
    x, uk, uq = arguments["token_x"], arguments["weight_uk"], arguments["weight_uq_qr"]
    leading, heads = tuple(x.shape[:-1]), uk.size(0)
    rows = leading[0] if len(leading) == 1 else leading[0] * leading[1]
    quantised = x.dtype == torch.int8 and arguments["kv_cache"].dtype == torch.int8
    has_norm_scale = query_norm_flag and uq.dtype == torch.int8
    return (
        Result((*leading, heads, uk.size(2)), torch.int8 if quantised else torch.bfloat16),
        Result((*leading, heads, ROPE), torch.bfloat16),
        Result((rows, heads, 1) if quantised else (no_scale,), torch.float32),
        Result((*leading, arguments["weight_dq"].size(1)) if query_norm_flag else (0,), uq.dtype),
        Result((rows, 1) if has_norm_scale else (0,), torch.float32),
    )


FIRST_MODES = BY_SLOT
ALL_MODES = (*BY_SLOT, *BY_BLOCK, *IN_PLACE)

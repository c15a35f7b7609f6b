"""Calls of npu_rope_quant_kvcache and npu_dequant_rope_quant_kvcache.

They write their caches although their schemas do not say so: allowed calls are in test_rope_quant_kvcache.py.
"""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import Draw
from support.call_table import Statement, bad
from support.numpy_rules import floats, integers
from support.tensors import bf16, f16, f32, i8, small32

PLAIN, DEQUANT = "rope_quant_kvcache", "dequant_rope_quant_kvcache"
WIDTH, SPLITS = 32, [128, 64, 64]
ROW = torch.linspace(0.05, 0.9, 64)
WEIGHT = torch.linspace(0.001, 0.02, 256)


def positions(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def call(make: Any = bf16, angles: Any = None, rank: int = 3, indices: torch.Tensor | None = None) -> tuple[Any, ...]:
    """Two batches of three tokens, or of one: four heads of queries, two of keys; three sequences of eight cached."""
    tokens = (2, 3) if rank == 3 else (2,)
    angles = angles or make
    shape = (*tokens, 1, WIDTH) if rank == 3 else (*tokens, WIDTH)
    caches = i8(3, 8, 2, WIDTH), i8(3, 8, 2, WIDTH)
    at = positions(5, 0) if indices is None else indices
    return make(*tokens, 256), angles(*shape), angles(*shape), *caches, at, ROW, -ROW, SPLITS


A, D = call(), call(small32, f16)
PAGE = {"cache_mode": "page"}
OFFSETS = {"offset_k": ROW, "offset_v": ROW * 9}
SCALED = {"weight_scale": WEIGHT}


def other(index: int, value: Any, of: tuple[Any, ...] = A) -> tuple[Any, ...]:
    return *of[:index], value, *of[index + 1 :]


WRONG = [
    *(
        bad(PLAIN, argument, label, *args, **options)
        for argument, label, args, options in (
            ("x", "float32", other(0, f32(2, 3, 256)), {}),
            ("x", "four dimensions", other(0, bf16(1, 2, 3, 256)), {}),
            ("x.size(-1)", "another width", other(0, bf16(2, 3, 320)), {}),
            ("x.size(-1)", "too wide", other(8, [4096, 64, 64], other(0, bf16(2, 3, 4224))), {}),
            ("x.size(-1)", "no multiple of 64", other(8, [96, 64, 64], other(0, bf16(2, 3, 224))), {}),
            ("size_splits[0]", "a negative part", other(8, [-32, 64, 64]), {}),
            ("size_splits[2]", "fewer values than keys", other(8, [128, 64, 32]), {}),
            ("cos", "float16", other(1, f16(2, 3, 1, 32)), {}),
            ("sin", "sines of another dtype", other(2, f16(2, 3, 1, 32)), {}),
            ("cos", "cosines of three dimensions", other(1, bf16(2, 3, 32)), {}),
            ("sin.size(1)", "sines of fewer tokens", other(2, bf16(2, 1, 1, 32)), {}),
            ("k_cache", "a cache of half precision", other(3, bf16(3, 8, 2, 32)), {}),
            ("k_cache", "a cache of three dimensions", other(3, i8(3, 8, 64)), {}),
            ("k_cache.size(2)", "three heads of keys", other(3, i8(3, 8, 3, 32)), {}),
            ("k_cache.size(3)", "heads of eight", other(3, i8(3, 8, 8, 8)), {}),
            ("v_cache", "float values", other(4, bf16(3, 8, 2, 32)), {}),
            ("v_cache.size(1)", "shorter values", other(4, i8(3, 7, 2, 32)), {}),
            ("k_cache.size(0)", "one sequence", other(3, i8(1, 8, 2, 32), other(4, i8(1, 8, 2, 32))), {}),
            ("k_cache.size(1)", "sequences of two", other(3, i8(3, 2, 2, 32), other(4, i8(3, 2, 2, 32))), {}),
            ("indices", "int64", other(5, torch.tensor([5, 0])), {}),
            ("indices", "two dimensions", other(5, positions(5, 0)[None]), {}),
            ("indices.size(0)", "one position", other(5, positions(5)), {}),
            ("indices.size(0)", "positions for slots", A, PAGE),
            ("scale_k", "half precision", other(6, ROW.half()), {}),
            ("scale_v.numel()", "a short scale", other(7, ROW[:32]), {}),
            ("offset_k", "one offset", A, {"offset_k": ROW}),
            ("offset_v", "an offset of int32", A, {**OFFSETS, "offset_v": ROW.int()}),
            ("quant_mode", "dynamic", A, {"quant_mode": 1}),
            ("input_layout", "BNSD", A, {"input_layout": "BNSD"}),
            ("cache_mode", "unknown", A, {"cache_mode": "paged"}),
        )
    ),
    *(
        bad(DEQUANT, argument, label, *args, **options)
        for argument, label, args, options in (
            ("x", "bfloat16", A, SCALED),
            ("cos", "float32", other(1, f32(2, 3, 1, 32), D), SCALED),
            ("weight_scale", "none", D, {}),
            ("weight_scale", "half precision", D, {"weight_scale": WEIGHT.half()}),
            ("weight_scale.numel()", "too short", D, {"weight_scale": WEIGHT[:64]}),
            ("activation_scale.numel()", "one for each batch", D, {**SCALED, "activation_scale": f32(2)}),
            ("bias", "int8", D, {**SCALED, "bias": i8(256)}),
            ("bias.numel()", "too short", D, {**SCALED, "bias": f32(64)}),
        )
    ),
]
WRONG_VALUES = [
    bad(PLAIN, "indices[1]", "beyond its sequence", *call(indices=positions(5, 6))),
    bad(PLAIN, "indices[0]", "before its sequence", *call(indices=positions(-1, 0))),
    bad(
        DEQUANT,
        "indices[4]",
        "beyond the cache",
        *call(small32, f16, indices=positions(1, 2, 3, 4, 24, 5)),
        **SCALED,
        **PAGE,
    ),
]


def expected(*args: Any, **options: Any) -> list[Any]:
    """Token by token and head by head."""
    x, cos, sin, k_cache, v_cache, indices, scale_k, scale_v, _ = args
    is_half = cos.dtype == torch.float16
    rows = floats(x).reshape(-1, 256)
    if x.dtype == torch.int32:
        bias = options.get("bias")
        if bias is not None and bias.dtype == torch.int32:
            rows = floats(x.reshape(-1, 256) + bias)
        rows = rows * floats(options["weight_scale"])
        if options.get("activation_scale") is not None:
            rows = rows * floats(options["activation_scale"]).reshape(-1, 1)
        if bias is not None and bias.dtype != torch.int32:
            rows = rows + floats(bias)
    q, k, v = rows[:, :128].reshape(-1, 4, 32), rows[:, 128:192].reshape(-1, 2, 32), rows[:, 192:].reshape(-1, 2, 32)
    precision = np.float16 if is_half else np.float32
    cosines, sines = (floats(tensor).reshape(-1, 1, 32).astype(precision) for tensor in (cos, sin))

    def rotate(heads: Any) -> Any:
        with np.errstate(over="ignore"):
            narrow = heads.astype(precision)
            swapped = np.concatenate([-narrow[..., 16:], narrow[..., :16]], -1)
            return (narrow * cosines + swapped * sines).astype(np.float32)

    q, k = rotate(q), rotate(k)
    length = rows.shape[0] // x.size(0)
    caches = []
    for cache, values, scale, offset in ((k_cache, k, scale_k, "offset_k"), (v_cache, v, scale_v, "offset_v")):
        quotients = values / floats(scale).reshape(2, 32)
        if options.get(offset) is not None:
            quotients = quotients + floats(options[offset]).reshape(2, 32)
        quantised, out = torch.from_numpy(integers(quotients, "int8")), cache.clone()
        for token in range(len(rows)):
            if options.get("cache_mode") == "page":
                slot = int(indices[token])
                if slot >= 0:
                    out[slot // 8, slot % 8] = quantised[token]
            else:
                out[token // length, int(indices[token // length]) + token % length] = quantised[token]
        caches.append(out)
    shape = tuple(x.shape[:-1])
    outputs = [torch.from_numpy(tensor).to(cos.dtype).reshape(*shape, -1, 32) for tensor in (q, k, v)]
    return [*outputs, *caches]


@st.composite
def with_data(draw: Draw, dequantised: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    angles = draw(st.sampled_from([f16, bf16]))
    rank, is_paged = draw(st.sampled_from([2, 3])), draw(st.booleans())
    tokens = 6 if rank == 3 else 2
    at = draw(st.lists(st.integers(0, 23 if is_paged else 5), min_size=tokens, max_size=tokens, unique=is_paged))
    at[1] = draw(st.sampled_from([at[1], -1])) if is_paged else at[1]
    args = call(small32 if dequantised else angles, angles, rank, positions(*(at if is_paged else at[:2])))
    options: dict[str, Any] = {"kv_output": True, "cache_mode": "page" if is_paged else "contiguous"}
    if draw(st.booleans()):
        options |= OFFSETS
    if dequantised:
        bias = draw(st.sampled_from([None, f32(256), f16(256), bf16(256), small32(256)]))
        options |= {**SCALED, "bias": bias, "activation_scale": draw(st.sampled_from([None, f32(tokens)]))}
    return args, options


STATEMENTS = {
    f"npu_{PLAIN}": Statement(expected, with_data(False), sample=10),
    f"npu_{DEQUANT}": Statement(expected, with_data(True), sample=10),
}


def paged(*tensors: torch.Tensor) -> Any:
    inputs, weight_scale = tensors[:-1], tensors[-1]
    return torch_npu.npu_dequant_rope_quant_kvcache(*inputs, SPLITS, weight_scale=weight_scale, **PAGE)


GOLDEN = {f"{DEQUANT}-page": (paged, (*call(small32, bf16, rank=2)[:-1], WEIGHT))}

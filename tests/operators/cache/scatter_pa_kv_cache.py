"""Calls of npu_scatter_pa_kv_cache and its functional form."""

from typing import Any

import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import Draw, mostly, tensor
from support.call_table import Call, Statement, bad, good
from support.tensors import bf16, f16, f32, i8

NAMES = ("scatter_pa_kv_cache", "scatter_pa_kv_cache_functional")
MAKERS = {torch.float16: f16, torch.bfloat16: bf16, torch.int8: i8}


def slots(*values: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def norm(make: Any = f16, k: int = 32, v: int = 64, at: Any = None) -> tuple[torch.Tensor, ...]:
    """Three tokens of two heads, and caches of three blocks of four."""
    caches = make(3, 4, 2, k), make(3, 4, 2, v)
    return make(3, 2, k), make(3, 2, v), *caches, slots(5, 0, 11) if at is None else at


def nz(make: Any = f16, make_value: Any = None, deep: bool = False, at: Any = None) -> tuple[torch.Tensor, ...]:
    """The same in mode PA_NZ."""
    pairs = []
    for maker, width in ((make, 32), (make_value or make, 64)):
        c = 32 // maker(1).element_size()
        parts = (2, width // c) if deep else (2 * width // c,)
        pairs.append((maker(3, 2, width), maker(3, *parts, 4, c)))
    (key, key_cache), (value, value_cache) = pairs
    return key, value, key_cache, value_cache, slots(5, 0, 11) if at is None else at


A, N, NORM = nz(), norm(), {"cache_mode": "Norm"}
GOOD: list[Call] = [
    good(op, label, *args, **options)
    for op, most in zip(NAMES, (None, 3), strict=True)
    for label, args, options in (
        ("a skipped token", norm(at=slots(5, -1, 2)), NORM),
        ("int8 keys and bfloat16 values", nz(i8, bf16), {}),
        ("parts with heads", nz(bf16, deep=True), {"cache_mode": "PA_NZ"}),
        ("parts", A, {}),
        ("tokens", norm(bf16, at=slots(5, 0, 11, dtype=torch.int64)), NORM),
        ("tokens without a mode", norm(i8), {"cache_mode": None}),
    )[:most]
]
LENS = slots(1, 1, 1)
WRONG = [
    bad(op, argument, label, *args, **options)
    for op in NAMES[:1]
    for argument, label, args, options in (
        ("key", "float32", norm(f32), NORM),
        ("key", "four dimensions", (f16(1, 3, 2, 32), *N[1:]), NORM),
        ("key.size(0)", "no token", (f16(0, 2, 32), f16(0, 2, 64), *N[2:4], slots()), NORM),
        ("key_cache", "fewer slots than tokens", (*N[:2], f16(1, 2, 2, 32), f16(1, 2, 2, 64), N[4]), NORM),
        ("key_cache.size(-2)", "blocks of 65536", (*A[:2], f16(1, 4, 65536, 16), f16(1, 8, 65536, 16), A[4]), {}),
        ("key", "int8 values of float16 keys", nz(f16, i8), {}),
        ("key_cache", "a cache of another dtype", (*N[:2], bf16(3, 4, 2, 32), *N[3:]), NORM),
        ("key_cache", "a cache of five dimensions", (*N[:2], f16(3, 1, 4, 2, 32), *N[3:]), NORM),
        ("key_cache.size(2)", "a cache of one head", (*N[:2], f16(3, 4, 1, 32), *N[3:]), NORM),
        ("value_cache.size(3)", "a narrow cache of values", (*N[:3], f16(3, 4, 2, 32), N[4]), NORM),
        ("value", "values of another dtype", (N[0], bf16(3, 2, 64), N[2], bf16(3, 4, 2, 64), N[4]), NORM),
        ("value.size(0)", "fewer values", (N[0], f16(2, 2, 64), *N[2:]), NORM),
        ("value_cache.size(0)", "fewer blocks of values", (*N[:3], f16(2, 4, 2, 64), N[4]), NORM),
        ("value_cache.size(1)", "smaller blocks of values", (*N[:3], f16(3, 2, 2, 64), N[4]), NORM),
        ("value_cache", "one cache with heads", (*A[:3], nz(deep=True)[3], A[4]), {}),
        ("key.size(2)", "part of a part", norm(k=24), {"cache_mode": "PA_NZ"}),
        ("key_cache", "a cache of three dimensions", (*A[:2], f16(3, 4, 16), *A[3:]), {}),
        ("key_cache.size(-1)", "parts of 64 bytes", (*A[:2], f16(3, 2, 4, 32), *A[3:]), {}),
        ("key_cache.size(1)", "too many parts", (*A[:2], f16(3, 8, 4, 16), *A[3:]), {}),
        ("key_cache.size(1)", "parts of one head", (*A[:2], f16(3, 1, 4, 4, 16), *A[3:]), {}),
        ("key_cache.size(2)", "too many parts of a head", (*A[:2], f16(3, 2, 4, 4, 16), *A[3:]), {}),
        ("slot_mapping", "float slots", (*A[:4], f16(3)), {}),
        ("slot_mapping", "slots in two dimensions", (*A[:4], A[4][None]), {}),
        ("slot_mapping.size(0)", "fewer slots", (*A[:4], A[4][:2]), {}),
        ("compress_lens", "compressed", A, {"compress_lens": LENS}),
        ("compress_seq_offsets", "compressed from somewhere", A, {"compress_seq_offsets": LENS}),
        ("seq_lens", "sequences", A, {"seq_lens": LENS}),
        ("cache_mode", "another mode", A, {"cache_mode": "BSND"}),
    )
]
GOOD_950 = [
    good(NAMES[0], "float32", *norm(f32), **NORM),
    good(NAMES[0], "float8 parts", *nz(lambda *shape: i8(*shape).view(torch.float8_e4m3fn)), cache_mode="PA_NZ"),
    good(NAMES[1], "fewer slots than tokens", *N[:2], f16(1, 2, 2, 32), f16(1, 2, 2, 64), slots(1, -1, 0), **NORM),
]
WRONG_VALUES = [
    bad(NAMES[0], "slot_mapping[1]", "beyond the cache", *norm(at=slots(0, 12, 1)), **NORM),
    bad(NAMES[0], "slot_mapping[2]", "beyond the parts", *nz(at=slots(0, 1, 13))),
]


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    mode = draw(st.sampled_from(["Norm", "PA_NZ"]))
    kind = draw(st.sampled_from(sorted(MAKERS, key=str)))
    call = (norm if mode == "Norm" else nz)(MAKERS[kind])
    tensors = [tensor(draw, tuple(like.shape), kind) for like in call[:4]]
    return (*tensors, call[4][: mostly(draw, 3, st.just(2))]), {"cache_mode": mode}


CALLS = {f"npu_{op}": calls() for op in NAMES}


def expected(key: Any, value: Any, key_cache: Any, value_cache: Any, at: Any, cache_mode: str) -> list[Any]:
    """Token by token, in mode PA_NZ part by part."""
    results = []
    for rows, cache in ((key, key_cache), (value, value_cache)):
        out = cache.clone()
        for token, slot in enumerate(at.tolist()):
            if slot >= 0 and cache_mode == "Norm":
                out[slot // 4, slot % 4] = rows[token]
            elif slot >= 0:
                flat, c = rows[token].flatten(), cache.size(-1)
                block = out[slot // 4].view(-1, 4, c)
                for part in range(flat.numel() // c):
                    block[part, slot % 4] = flat[part * c : part * c + c]
        results.append(out)
    return results


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    at = draw(st.lists(st.integers(0, 11), min_size=3, max_size=3, unique=True))
    at[1] = draw(st.sampled_from([at[1], -1]))
    chosen, make = slots(*at), draw(st.sampled_from([f16, bf16, i8]))
    if draw(st.booleans()):
        return norm(make, at=chosen), {"cache_mode": "Norm"}
    return nz(make, draw(st.sampled_from([None, bf16])), draw(st.booleans()), chosen), {"cache_mode": "PA_NZ"}


STATEMENTS = {f"npu_{NAMES[1]}": Statement(expected, with_data())}
GOLDEN = {"scatter_pa_kv_cache-parts": (torch_npu.npu_scatter_pa_kv_cache_functional, A)}

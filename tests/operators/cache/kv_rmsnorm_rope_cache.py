"""Calls of npu_kv_rmsnorm_rope_cache_v2 and its functional form; the first version has a separate test."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import Draw
from support.call_table import Statement, bad, good
from support.numpy_rules import floats, integers
from support.tensors import bf16, f16, f32

NAMES = ("kv_rmsnorm_rope_cache_v2", "kv_rmsnorm_rope_cache_v2_functional")


def slots(*values: int) -> torch.Tensor:
    return torch.tensor(values)


def call(make: Any = bf16, batch: int = 3, length: int = 1, k: Any = None, ckv: Any = None, index: Any = None) -> Any:
    """Arguments of an allowed call over three blocks of eight."""
    at = slots(*range(batch * length)) if index is None else index
    caches = (make(3, 8, 1, 64) if k is None else k, make(3, 8, 1, 512) if ckv is None else ckv)
    return make(batch, 1, length, 576), make(512), make(batch, 1, length, 64), make(batch, 1, length, 64), at, *caches


def int8(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.int8)


def beside_v() -> Any:
    """Arguments before the caches of a call with v."""
    return bf16(3, 1, 1, 192), bf16(192), bf16(3, 1, 1, 64), bf16(3, 1, 1, 64), slots(0, 1, 2)


PA, NZ, ROW = {"cache_mode": "PA"}, {"cache_mode": "PA_NZ"}, torch.arange(512.0)[None] / 500
GOOD = [
    good(op, label, *args, **options)
    for op in NAMES
    for label, args, options in (
        ("slots", call(), {**PA, "is_output_kv": True}),
        ("a skipped token", call(index=slots(5, -1, 0)), {**PA, "is_output_kv": True}),
        ("order of NZ", call(f16), {**NZ, "epsilon": 1e-6}),
        ("int8 latent in NZ", call(ckv=int8(3, 8, 1, 512)), {**NZ, "c_kv_scale": ROW, "is_output_kv": True}),
        (
            "int8 both",
            call(k=int8(3, 8, 1, 64), ckv=int8(3, 8, 1, 512)),
            {**PA, "c_kv_scale": ROW[0], "k_rope_scale": ROW[0, :64]},
        ),
        ("values", (*beside_v(), bf16(3, 8, 1, 192), bf16(3, 8, 1, 128)), {**PA, "v": bf16(3, 1, 1, 128)}),
        (
            "int8 values with an offset",
            (*beside_v(), bf16(3, 8, 1, 192), int8(3, 8, 1, 128)),
            {**NZ, "v": bf16(3, 1, 1, 128), "c_kv_scale": ROW[0, :128], "c_kv_offset": ROW[0, :128]},
        ),
        ("blocks", call(batch=1, length=11, index=slots(8, 0)), {"cache_mode": "PA_BLK_BNSD"}),
        ("blocks of NZ", call(batch=2, length=3, index=slots(8, 16)), {"cache_mode": "PA_BLK_NZ"}),
        (
            "contiguous",
            call(batch=2, length=2, k=bf16(2, 1, 6, 64), ckv=bf16(2, 1, 6, 512), index=slots(1, 2, 3, 4).view(2, 2)),
            {},
        ),
    )
]
A = call()
NARROW = bf16(3, 1, 1, 48), bf16(16), bf16(3, 1, 1, 32), bf16(3, 1, 1, 32), slots(5, -1, 0)
GOOD_950 = [good(op, "other widths", *NARROW, bf16(3, 8, 1, 32), bf16(3, 8, 1, 16), **PA) for op in NAMES]
WRONG_950 = [
    bad(op, argument, label, *args, **options)
    for op in NAMES
    for argument, label, args, options in (
        ("k_cache", "int8", call(k=int8(3, 8, 1, 64)), {**PA, "k_rope_scale": ROW[0, :64]}),
        ("ckv_cache", "int8 latents", call(ckv=int8(3, 8, 1, 512)), {**NZ, "c_kv_scale": ROW}),
        ("v", "values", (*beside_v(), bf16(3, 8, 1, 192), bf16(3, 8, 1, 128)), {**PA, "v": bf16(3, 1, 1, 128)}),
    )
]
WRONG = [
    bad(op, argument, label, *args, **options)
    for op in NAMES
    for argument, label, args, options in (
        ("kv", "float32", (f32(3, 1, 1, 576), *A[1:]), PA),
        ("kv", "three dimensions", (bf16(3, 1, 576), *A[1:]), PA),
        ("kv.size(1)", "two heads", (bf16(3, 2, 1, 576), *A[1:]), PA),
        ("gamma", "gamma of another dtype", (A[0], f16(512), *A[2:]), PA),
        ("gamma.size(0)", "gamma of 256", (bf16(3, 1, 1, 320), bf16(256), *A[2:]), PA),
        ("kv.size(3)", "kv too wide", (bf16(3, 1, 1, 640), *A[1:]), PA),
        ("cos.size(0)", "cosines of fewer tokens", (*A[:2], bf16(1, 1, 1, 64), *A[3:]), PA),
        ("sin.size(3)", "sines too wide", (*A[:3], bf16(3, 1, 1, 128), *A[4:]), PA),
        ("index", "int32", (*A[:4], A[4].int(), *A[5:]), PA),
        ("index", "slots in two dimensions", (*A[:4], A[4][None], *A[5:]), PA),
        ("k_cache", "a cache of another dtype", call(k=f16(3, 8, 1, 64)), PA),
        ("ckv_cache.size(3)", "a cache too narrow", call(ckv=bf16(3, 8, 1, 256)), PA),
        ("k_cache.size(2)", "a cache of two heads", call(k=bf16(3, 8, 2, 64)), PA),
        ("c_kv_scale", "int8 without a scale", call(ckv=int8(3, 8, 1, 512)), PA),
        ("k_rope_scale", "a scale without int8", A, {**PA, "k_rope_scale": f32(64)}),
        ("c_kv_scale.size(-1)", "a scale too short", call(ckv=int8(3, 8, 1, 512)), {**PA, "c_kv_scale": f32(64)}),
        ("c_kv_offset", "an offset without a scale", A, {**PA, "c_kv_offset": f32(512)}),
        ("cache_mode", "unknown", A, {"cache_mode": "BSND"}),
        ("index.size(0)", "a slot too few", (*A[:4], A[4][:2], *A[5:]), PA),
        (
            "index.size(0)",
            "a block too few",
            call(batch=1, length=11, index=slots(8)),
            {"cache_mode": "PA_BLK_BNSD"},
        ),
        (
            "index.size(1)",
            "a slot too many",
            call(batch=1, length=2, k=bf16(1, 1, 6, 64), ckv=bf16(1, 1, 6, 512), index=slots(1, 2, 3)[None]),
            {},
        ),
        ("ckv_cache.size(0)", "fewer blocks", call(ckv=bf16(2, 8, 1, 512)), PA),
        ("kv.size(2)", "no tokens", call(length=0), PA),
        (
            "c_kv_offset",
            "an offset without v",
            call(ckv=int8(3, 8, 1, 512)),
            {**PA, "c_kv_scale": ROW, "c_kv_offset": ROW},
        ),
        (
            "ckv_cache",
            "int8 in order without v",
            call(batch=1, k=bf16(1, 1, 6, 64), ckv=int8(1, 1, 6, 512), index=slots(1)[None]),
            {"c_kv_scale": ROW},
        ),
        (
            "c_kv_scale",
            "scales of two ranks",
            call(k=int8(3, 8, 1, 64), ckv=int8(3, 8, 1, 512)),
            {**PA, "c_kv_scale": ROW, "k_rope_scale": ROW[0, :64]},
        ),
        (
            "v.size(3)",
            "values too wide",
            (*beside_v(), bf16(3, 8, 1, 192), bf16(3, 8, 1, 192)),
            {**PA, "v": bf16(3, 1, 1, 192)},
        ),
        (
            "gamma.size(0)",
            "latents beside v",
            (bf16(3, 1, 1, 512), *A[1:]),
            {**PA, "v": bf16(3, 1, 1, 128)},
        ),
        ("k_cache_dtype", "Ascend 950", A, {**PA, "k_cache_dtype": 1}),
    )
]


def expected(*args: torch.Tensor, c_kv_scale: torch.Tensor | None = None, **options: Any) -> list[Any]:
    """The entries token by token, and the caches."""
    kv, gamma, cos, sin, index, k_cache, ckv_cache = args
    wide, width = floats(kv).reshape(-1, kv.size(-1)), gamma.size(0)
    latent, rope = wide[:, :width], wide[:, width:]
    squares = torch.from_numpy(latent * latent).sum(-1, keepdim=True).numpy()
    c = latent / np.sqrt(squares * np.float32(1 / width) + np.float32(1e-5)) * floats(gamma)
    a, b = rope[:, ::2], rope[:, 1::2]
    cosines, sines = floats(cos).reshape(-1, cos.size(-1)), floats(sin).reshape(-1, cos.size(-1))
    k = np.concatenate([a, b], -1) * cosines + np.concatenate([-b, a], -1) * sines
    caches = []
    for cache, values in ((k_cache, k), (ckv_cache, c)):
        kept = torch.from_numpy(values).to(kv.dtype)
        if cache.dtype == torch.int8:
            assert c_kv_scale is not None
            kept = torch.from_numpy(integers(values * c_kv_scale.numpy().reshape(-1), "int8"))
        part = 32 // cache.element_size()
        memory = cache.clone().reshape(3, -1, 8, part) if options["cache_mode"] == "PA_NZ" else cache.clone()
        for token, slot in enumerate(index.tolist()):
            if slot >= 0 and options["cache_mode"] == "PA_NZ":
                memory[slot // 8, :, slot % 8] = kept[token].reshape(-1, part)
            elif slot >= 0:
                memory[slot // 8, slot % 8, 0] = kept[token]
        caches.append(memory.reshape(cache.shape))
    shape = (*kv.shape[:3], -1)
    return [torch.from_numpy(entry).to(kv.dtype).reshape(shape) for entry in (k, c)] + caches


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    make = draw(st.sampled_from([bf16, f16]))
    quantised = draw(st.booleans())
    at = draw(st.lists(st.integers(0, 23), min_size=3, max_size=3, unique=True))
    at[1] = draw(st.sampled_from([at[1], -1]))
    options = {"cache_mode": draw(st.sampled_from(["PA", "PA_NZ"])), "is_output_kv": True}
    if quantised:
        options["c_kv_scale"] = ROW
    return call(make, ckv=int8(3, 8, 1, 512) if quantised else None, index=slots(*at)), options


@st.composite
def with_other_widths(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rope, latent = draw(st.sampled_from([2, 8, 64])), draw(st.sampled_from([1, 24, 512]))
    kv, gamma, angles = bf16(3, 1, 1, latent + rope), bf16(latent), bf16(3, 1, 1, rope)
    caches = bf16(3, 8, 1, rope), bf16(3, 8, 1, latent)
    return (kv, gamma, angles, angles * 0.5, slots(7, -1, 2), *caches), {"cache_mode": "PA", "is_output_kv": True}


STATEMENTS_950 = {f"npu_{NAMES[1]}": Statement(expected, with_other_widths())}
STATEMENTS = {f"npu_{NAMES[1]}": Statement(expected, with_data())}
GOLDEN = {
    f"{NAMES[1]}-bfloat16": (
        lambda *args: torch_npu.npu_kv_rmsnorm_rope_cache_v2_functional(*args, cache_mode="PA"),
        call(),
    ),
}

"""Calls of npu_mla_prolog in its three versions."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import Draw
from support.call_table import Call, Case, Statement, bad, good, overload
from support.tensors import bf16, ends, f32, i8, nz

HIDDEN, RANK, HEADS, WIDTH = 64, 64, 2, 32
UP, DOWN = HEADS * (WIDTH + 64), 512 + 64
Form = dict[str, Any]


def form(tokens: tuple[int, ...] = (3,), full: bool = False, up: bool = False, latent: bool = False) -> Form:
    """The tensors of a call: ``full``, ``up`` and ``latent`` say what is int8."""
    weights = i8 if full else bf16
    rows = int(np.prod(tokens))
    arguments: Form = {
        "token_x": (i8 if full else bf16)(*tokens, HIDDEN),
        "weight_dq": nz(weights(HIDDEN, RANK)),
        "weight_uq_qr": nz((i8 if full or up else bf16)(RANK, UP)),
        "weight_uk": bf16(HEADS, WIDTH, 512),
        "weight_dkv_kr": nz(weights(HIDDEN, DOWN)),
        "rmsnorm_gamma_cq": bf16(RANK),
        "rmsnorm_gamma_ckv": bf16(512),
        "rope_sin": bf16(*tokens, 64),
        "rope_cos": bf16(*tokens, 64),
        "cache_index": (torch.arange(rows) * 5 % 31 - 1).reshape(tokens),
        "kv_cache": (i8 if latent else bf16)(2, 16, 1, 512),
        "kr_cache": (i8 if latent and not full else bf16)(2, 16, 1, 64),
    }
    if full:
        arguments |= {"dequant_scale_x": f32(rows, 1), "dequant_scale_w_dq": f32(1, RANK)}
        arguments |= {"dequant_scale_w_dkv_kr": f32(1, DOWN)}
    if full or up:
        arguments["dequant_scale_w_uq_qr"] = f32(1, UP)
    if latent:
        arguments["quant_scale_ckv"] = f32(1).abs() if full else f32(1, 512)
        if not full:
            arguments["quant_scale_ckr"] = f32(1, 64)
    return arguments


PLAIN, PART = form(), form((2, 2), up=True, latent=True)
FULL = form(full=True, latent=True)
ROW = {**FULL, "quant_scale_ckv": f32(1, 512).abs()}  # of which the second version reads the first
THREE = {**PLAIN, "weight_uq_qr": nz(bf16(RANK, 3 * (WIDTH + 64))), "weight_uk": bf16(3, WIDTH, 512)}
MODES: Form = {"weight_quant_mode": 2, "kv_cache_quant_mode": 1, "query_quant_mode": 1}
V3 = "mla_prolog_v3"


def without(arguments: Form, *names: str) -> Form:
    return {name: value for name, value in arguments.items() if name not in names}


GOOD: list[Call] = [
    good("mla_prolog", "bfloat16", **PLAIN),
    good("mla_prolog_v2", "int8 throughout", **ROW, cache_mode="PA_NZ"),
    good(V3, "bfloat16, norm", **PLAIN, query_norm_flag=True, qc_qr_scale=1.5),
    good(V3, "int8 throughout", **FULL, **MODES, cache_mode="PA_NZ"),
    good(V3, "three heads", **THREE),
    good(f"{V3}_functional", "int8 in part", **PART, weight_quant_mode=1, kv_cache_quant_mode=2,
         smooth_scales_cq=f32(1, RANK), query_norm_flag=True),
]  # fmt: skip
WRONG: list[Call] = [
    bad(V3, "token_x", "float16", **{**PLAIN, "token_x": PLAIN["token_x"].half()}),
    bad(V3, "token_x", "one dimension", **{**PLAIN, "token_x": PLAIN["token_x"][0]}),
    bad(V3, "weight_uk", "two dimensions", **{**PLAIN, "weight_uk": PLAIN["weight_uk"][0]}),
    bad(V3, "weight_uk.size(0)", "no head", **{**PLAIN, "weight_uk": bf16(0, WIDTH, 512)}),
    bad(V3, "weight_uk.size(0)", "129 heads", **{**PLAIN, "weight_uk": bf16(129, WIDTH, 512)}),
    bad("mla_prolog", "weight_uk.size(0)", "three heads", **{**PLAIN, "weight_uk": bf16(3, WIDTH, 512)}),
    bad(V3, "weight_uk.size(2)", "256 latent channels", **{**PLAIN, "weight_uk": bf16(HEADS, WIDTH, 256)}),
    bad(V3, "weight_dq.size(0)", "other hidden size", **{**PLAIN, "weight_dq": bf16(32, RANK)}),
    bad(V3, "weight_uq_qr.size(1)", "other heads", **{**PLAIN, "weight_uq_qr": bf16(RANK, 64)}),
    bad(V3, "weight_dkv_kr", "int8 beside bfloat16", **{**PLAIN, "weight_dkv_kr": i8(HIDDEN, DOWN)}),
    bad(V3, "rmsnorm_gamma_cq.size(0)", "gamma too short", **{**PLAIN, "rmsnorm_gamma_cq": bf16(8)}),
    bad(V3, "rope_sin.size(0)", "a token too few", **{**PLAIN, "rope_sin": bf16(2, 64)}),
    bad(V3, "cache_mode", "no such mode", **PLAIN, cache_mode="PA"),
    bad("mla_prolog", "cache_mode", "a mode of the third", **PLAIN, cache_mode="PA_BLK_NZ"),
    bad(V3, "kv_cache", "int8 without scales", **{**PLAIN, "kv_cache": i8(2, 16, 1, 512)}),
    bad(V3, "kv_cache.size(-1)", "groups", **{**PLAIN, "kv_cache": bf16(2, 16, 1, 656)}),
    bad(
        V3,
        "kv_cache.size(1)",
        "pages of 24",
        **{**PLAIN, "kv_cache": bf16(2, 24, 1, 512), "kr_cache": bf16(2, 24, 1, 64)},
    ),
    bad(V3, "kr_cache.size(1)", "caches apart", **{**PLAIN, "kr_cache": bf16(2, 8, 1, 64)}),
    bad(V3, "cache_index", "none", **without(PLAIN, "cache_index")),
    bad(V3, "cache_index", "int32", **{**PLAIN, "cache_index": ends(1, 2, 3)}),
    bad(V3, "cache_index.size(0)", "an index too few", **{**PLAIN, "cache_index": ends(1, 2).long()}),
    bad(V3, "actual_seq_len", "blocks without lengths", **PLAIN, cache_mode="PA_BLK_BSND"),
    bad(V3, "dequant_scale_w_dq", "no scale", **without(FULL, "dequant_scale_w_dq"), **MODES),
    bad(V3, "dequant_scale_x", "a scale for nothing", **PLAIN, dequant_scale_x=f32(3, 1)),
    bad(V3, "dequant_scale_w_uq_qr.size(1)", "scales too few", **{**FULL, "dequant_scale_w_uq_qr": f32(1, 8)}, **MODES),
    bad(V3, "quant_scale_ckv", "a scale a channel", **{**FULL, "quant_scale_ckv": f32(1, 512)}, **MODES),
    bad("mla_prolog_v2", "quant_scale_ckv", "a scale as of the third", **FULL),
    bad(V3, "quant_scale_ckv", "one scale in two dimensions", **{**FULL, "quant_scale_ckv": f32(1, 1)}, **MODES),
    bad(V3, "weight_quant_mode", "a mode that is not so", **PLAIN, weight_quant_mode=1),
    bad(V3, "kv_cache_quant_mode", "groups", **PLAIN, kv_cache_quant_mode=3),
    bad(V3, "k_nope_clip_alpha", "a clip", **PLAIN, k_nope_clip_alpha=f32(1)),
    bad(V3, "token_x_dtype", "of Ascend 950", **PLAIN, token_x_dtype=290),
    bad("mla_prolog", "kv_cache", "int8 query without a scale", **ROW),
]
WRONG_FORMATS: list[Call] = [
    bad(V3, name, f"{name} row-major", **{**PLAIN, name: PLAIN[name].clone()})
    for name in ("weight_dq", "weight_uq_qr", "weight_dkv_kr")
]
WRONG_VALUES: list[Call] = [
    bad(V3, "cache_index[2]", "behind the cache", **{**PLAIN, "cache_index": ends(1, 2, 32).long()}),
]


def _double(x: torch.Tensor) -> Any:
    return x.double().numpy()


def _bf16(x: Any) -> Any:
    return torch.from_numpy(np.ascontiguousarray(x)).bfloat16().double().numpy()


def _norm(x: Any, gamma: torch.Tensor, epsilon: float) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * _double(gamma)


def _rope(x: Any, cos: Any, sin: Any) -> Any:
    rotated = np.empty_like(x)
    half = x.shape[-1] // 2
    for pair in range(half):
        even, odd = x[..., 2 * pair], x[..., 2 * pair + 1]
        rotated[..., pair] = even * cos[..., pair] - odd * sin[..., pair]
        rotated[..., half + pair] = odd * cos[..., half + pair] + even * sin[..., half + pair]
    return rotated


def expected(**arguments: Any) -> list[Any]:
    """The third version in its functional form, without quantisation."""
    x = _double(arguments["token_x"]).reshape(-1, HIDDEN)
    sin, cos = (_double(arguments[name]).reshape(-1, 64) for name in ("rope_sin", "rope_cos"))
    normed = _norm(_bf16(x @ _double(arguments["weight_dq"])), arguments["rmsnorm_gamma_cq"], 1e-5)
    normed = _bf16(normed * arguments["qc_qr_scale"])
    up = _bf16(normed @ _double(arguments["weight_uq_qr"])).reshape(-1, HEADS, WIDTH + 64)
    query = np.stack([up[:, n, :WIDTH] @ _double(arguments["weight_uk"][n]) for n in range(HEADS)], 1)
    rope = _rope(up[..., WIDTH:], cos[:, None], sin[:, None])
    down = _bf16(x @ _double(arguments["weight_dkv_kr"]))
    latent = _norm(down[:, :512], arguments["rmsnorm_gamma_ckv"], 1e-5) * arguments["kc_scale"]
    caches = [arguments["kv_cache"].clone(), arguments["kr_cache"].clone()]
    for cache, rows in zip(caches, (latent, _rope(down[:, 512:], cos, sin)), strict=True):
        for token, slot in enumerate(arguments["cache_index"].flatten().tolist()):
            row = torch.from_numpy(rows[token]).bfloat16()
            if slot >= 0 and arguments["cache_mode"] == "PA_NZ":
                cache.view(2, -1, 16, 16)[slot // 16, :, slot % 16] = row.view(-1, 16)
            elif slot >= 0:
                cache[slot // 16, slot % 16, 0] = row
    leading = arguments["token_x"].shape[:-1]
    nothing = np.zeros(0, np.float32)
    return [
        _bf16(query).reshape(*leading, HEADS, 512).astype(np.float32),
        _bf16(rope).reshape(*leading, HEADS, 64).astype(np.float32),
        nothing,
        normed.reshape(*leading, RANK).astype(np.float32),
        nothing,
        *(cache.float().numpy() for cache in caches),
    ]


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], Form]:
    tokens = draw(st.sampled_from([(1,), (4,), (2, 3)]))
    arguments = form(tokens)
    arguments["cache_mode"] = draw(st.sampled_from(["PA_BSND", "PA_NZ"]))
    arguments["qc_qr_scale"], arguments["kc_scale"] = draw(st.sampled_from([(1.0, 1.0), (1.5, 0.5)]))
    arguments["query_norm_flag"] = True
    order = draw(st.permutations(range(-1, 31)))
    arguments["cache_index"] = torch.tensor(order[: int(np.prod(tokens))]).reshape(tokens)
    return (), arguments


# A product may be rounded to bfloat16 the other way, 2**-8 of it, and that goes through two products more.
STATEMENTS = {f"npu_{V3}_functional": Statement(expected, calls(), 2.0**-6)}


def golden(op: str, **modes: Any) -> Case:
    names = list(PLAIN)

    def call(*tensors: torch.Tensor) -> Any:
        return overload(op)(**dict(zip(names, tensors, strict=True)), **modes)[:2]

    return call, tuple(PLAIN.values())


GOLDEN = {name: golden(f"npu_{name}") for name in ("mla_prolog", "mla_prolog_v2", f"{V3}_functional")}

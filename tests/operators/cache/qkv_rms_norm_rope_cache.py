"""Calls of npu_qkv_rms_norm_rope_cache and its functional form."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import Draw
from support.call_table import Call, Statement, bad, good
from support.numpy_rules import floats, integers
from support.tensors import bf16, f16, f32, i8

NAMES = ("qkv_rms_norm_rope_cache", "qkv_rms_norm_rope_cache_functional")
SIZE, HEADS = [2, 2, 4, 128], [2, 1, 1]


def slots(*values: int) -> torch.Tensor:
    return torch.tensor(values)


def call(make: Any = bf16, k: Any = None, v: Any = None, at: Any = None) -> tuple[Any, ...]:
    """Two batches of two tokens, two heads of queries, two blocks of 32."""
    caches = [i8(2, 4, 32, 32) if kind is i8 else make(2, 8, 32, 16) for kind in (k, v)]
    rows = make(4, 512), make(128), make(128), make(4, 128), make(4, 128)
    return *rows, slots(3, 40, 0, 63) if at is None else at, make(4, 256), *caches, SIZE, HEADS


ROW = torch.arange(1.0, 129.0)[None] / 500
A = call()
GOOD: list[Call] = [
    good(op, label, *args, **options)
    for op in NAMES
    for label, args, options in (
        ("bfloat16", A, {"is_output_qkv": True}),
        ("int8 keys", call(f16, k=i8, at=slots(3, -1, 0, 63)), {"k_scale": ROW, "epsilon": 1e-5}),
        ("int8 both", call(f16, i8, i8), {"k_scale": ROW, "v_scale": -ROW, "v_offset": ROW, "k_offset": ROW}),
    )
]


def other(index: int, value: Any) -> tuple[Any, ...]:
    return *A[:index], value, *A[index + 1 :]


Q = call(k=i8)
WRONG = [
    bad(op, argument, label, *args, **options)
    for op in NAMES[:1]
    for argument, label, args, options in (
        ("qkv", "float32", other(0, f32(4, 512)), {}),
        ("qkv", "three dimensions", other(0, bf16(2, 2, 512)), {}),
        ("qkv.size(0)", "another number of tokens", other(9, [2, 3, 4, 128]), {}),
        ("qkv.size(1)", "another width", other(0, bf16(4, 640)), {}),
        ("qkv_size[3]", "heads of 64", other(9, [2, 2, 8, 64]), {}),
        ("qkv_size[2]", "another number of heads", other(9, [2, 2, 5, 128]), {}),
        ("head_nums", "more keys than values", other(10, [1, 2, 1]), {}),
        ("head_nums[0]", "three heads of queries for two of keys", (*A[:9], [2, 2, 7, 128], [3, 2, 2]), {}),
        ("k_cache.size(2)", "blocks of 16", other(7, bf16(4, 8, 16, 16)), {}),
        ("v_cache.size(0)", "more blocks of values", other(8, bf16(3, 8, 32, 16)), {}),
        ("v_cache.size(2)", "larger blocks of values", other(8, bf16(2, 8, 64, 16)), {}),
        ("q_gamma", "gamma of another dtype", other(1, f16(128)), {}),
        ("k_gamma.size(0)", "gamma too short", other(2, bf16(64)), {}),
        ("cos", "cosines of three dimensions", other(3, bf16(2, 2, 128)), {}),
        ("sin.size(0)", "sines of fewer tokens", other(4, bf16(2, 128)), {}),
        ("index", "int32", other(5, A[5].int()), {}),
        ("index", "slots in two dimensions", other(5, A[5][None]), {}),
        ("index.size(0)", "fewer slots", other(5, A[5][:2]), {}),
        ("q_out.size(1)", "narrow queries", other(6, bf16(4, 128)), {}),
        ("k_cache", "a cache of another dtype", other(7, f16(2, 8, 32, 16)), {}),
        ("k_cache", "a cache of five dimensions", other(7, bf16(2, 1, 8, 32, 16)), {}),
        ("v_cache.size(1)", "fewer parts", other(8, bf16(2, 4, 32, 16)), {}),
        ("v_cache.size(3)", "parts of 64 bytes", other(8, bf16(2, 8, 32, 32)), {}),
        ("k_cache.size(2)", "blocks of 24", other(7, bf16(3, 8, 24, 16)), {}),
        ("k_cache.size(2)", "blocks of nothing", other(7, bf16(3, 8, 0, 16)), {}),
        ("v_cache.size(0)", "one block for two batches", other(8, bf16(1, 8, 32, 16)), {}),
        ("k_scale", "int8 without a scale", Q, {}),
        ("v_scale", "a scale without int8", A, {"v_scale": ROW}),
        ("k_scale", "a scale of half precision", Q, {"k_scale": ROW.half()}),
        ("k_scale", "a scale of one dimension", Q, {"k_scale": ROW[0]}),
        ("k_scale.size(0)", "scales of two heads", Q, {"k_scale": ROW.repeat(2, 1)}),
        ("k_scale.size(1)", "a scale too short", Q, {"k_scale": ROW[:, :64]}),
        ("k_offset", "an offset without a scale", A, {"k_offset": ROW}),
        ("cache_mode", "Norm", A, {"cache_mode": "Norm"}),
    )
]
WRONG_VALUES = [bad(NAMES[0], "index[1]", "beyond the cache", *call(at=slots(0, 64, 1, 2)))]


def expected(*args: Any, **options: Any) -> list[Any]:
    """Token by token and head by head."""
    qkv, q_gamma, k_gamma, cos, sin, index, _, k_cache, v_cache, *_ = args
    heads = floats(qkv).reshape(4, 4, 128)
    q, k, v = heads[:, :2], heads[:, 2:3], heads[:, 3:]

    def norm_and_rotate(x: Any, gamma: torch.Tensor) -> Any:
        squares = torch.from_numpy(x * x).sum(-1, keepdim=True).numpy()
        normed = x / np.sqrt(squares * np.float32(1 / 128) + np.float32(1e-6)) * floats(gamma)
        rotated = np.concatenate([-normed[..., 64:], normed[..., :64]], -1)
        return normed * floats(cos)[:, None] + rotated * floats(sin)[:, None]

    q, k = norm_and_rotate(q, q_gamma), norm_and_rotate(k, k_gamma)
    unquantised = [torch.from_numpy(rows.reshape(4, -1)).to(qkv.dtype) for rows in (q, k, v)]
    caches = []
    for name, cache, values, plain in (("k", k_cache, k, unquantised[1]), ("v", v_cache, v, unquantised[2])):
        kept = plain
        if options[f"{name}_scale"] is not None:
            scaled = values[:, 0] / floats(options[f"{name}_scale"])
            offset = options[f"{name}_offset"]
            kept = torch.from_numpy(integers(scaled if offset is None else scaled + floats(offset), "int8"))
        out, c = cache.clone(), cache.size(-1)
        for token, slot in enumerate(index.tolist()):
            for part in range(128 // c if slot >= 0 else 0):
                out[slot // 32, part, slot % 32] = kept[token, part * c : part * c + c]
        caches.append(out)
    return [*unquantised, unquantised[0], *caches]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    make, k, v = draw(st.sampled_from([f16, bf16])), *(draw(st.sampled_from([None, i8])) for _ in range(2))
    at = draw(st.lists(st.integers(0, 63), min_size=4, max_size=4, unique=True))
    at[1] = draw(st.sampled_from([at[1], -1]))
    options = {"is_output_qkv": True}
    for name, cache in (("k", k), ("v", v)):
        options[f"{name}_scale"] = None if cache is None else ROW * draw(st.sampled_from([1.0, -7.0]))
        options[f"{name}_offset"] = None if cache is None else draw(st.sampled_from([None, ROW * 40]))
    return call(make, k, v, slots(*at)), options


STATEMENTS = {f"npu_{NAMES[1]}": Statement(expected, with_data())}
GOLDEN = {
    f"{NAMES[0]}-bfloat16": (
        lambda *args: torch_npu.npu_qkv_rms_norm_rope_cache_functional(*args, SIZE, HEADS, is_output_qkv=True),
        A[:9],
    ),
}

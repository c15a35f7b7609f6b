"""Calls of npu_rotary_mul and npu_interleave_rope."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import FLOATS, HALVES, SIZES, Draw, mostly, tensor
from support.call_table import Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, i8

MUL, ROPE = "rotary_mul", "interleave_rope"
TURN = torch.zeros(8, 8)
TURN[torch.arange(4) + 4, torch.arange(4)], TURN[torch.arange(4), torch.arange(4) + 4] = -1.0, 1.0
GOOD = [
    good(MUL, "float16", f16(2, 3, 4, 16), f16(1, 3, 1, 16), f16(1, 3, 1, 16)),
    good(MUL, "bfloat16", bf16(2, 3, 4, 16), bf16(2, 3, 4, 16), bf16(2, 3, 4, 16)),
    good(MUL, "float32", f32(2, 3, 4, 16), f32(2, 1, 1, 16), f32(2, 1, 1, 16)),
    good(MUL, "three dimensions", bf16(5, 2, 8), bf16(5, 1, 8), bf16(5, 1, 8)),
    good(MUL, "interleave", bf16(2, 3, 4, 16), bf16(1, 3, 1, 16), bf16(1, 3, 1, 16), "interleave"),
    good(MUL, "interleave float16", f16(2, 3, 4, 16), f16(1, 3, 1, 16), f16(1, 3, 1, 16), "interleave"),
    good(MUL, "float32 coefficients", bf16(2, 3, 4, 16), f32(1, 3, 1, 16), f32(1, 3, 1, 16)),
    good(MUL, "a matrix that turns", f16(1, 5, 2, 8), f16(1, 5, 1, 8), f16(1, 5, 1, 8), "half", TURN.half()),
    good(MUL, "a matrix and coefficients of no batch", f16(2, 5, 2, 8), *[f16(1, 5, 2, 8)] * 2, "half", TURN.half()),
    good(MUL, "one element of coefficients for a batch of one", f16(1, 3, 4, 16), *[f16(1, 1, 1, 16)] * 2),
    good(MUL, "interleave in three dimensions", f16(5, 2, 8), *[f16(1, 2, 8)] * 2, "interleave"),
    good(MUL, "the widest", f16(2, 3, 4, 896), *[f16(1, 3, 1, 896)] * 2),
    good(MUL, "nothing", f16(0, 3, 4, 16), *[f16(1, 1, 4, 16)] * 2),
    good(MUL, "not contiguous", f16(2, 4, 3, 16).transpose(1, 2), f16(1, 3, 1, 16), f16(1, 3, 1, 16)),
    good(MUL, "heads before positions", f16(2, 12, 3, 128), *[f16(1, 1, 3, 128)] * 2),
    good(ROPE, "bfloat16", bf16(2, 3, 4, 64), bf16(2, 1, 4, 64), bf16(2, 1, 4, 64)),
    good(ROPE, "float16", f16(2, 3, 4, 64), f16(2, 1, 4, 64), f16(2, 1, 4, 64)),
    good(ROPE, "one position", f16(2, 3, 4, 64), f16(2, 1, 1, 64), f16(2, 1, 1, 64)),
    good(ROPE, "not contiguous", bf16(1, 32, 4, 64).transpose(1, 2), bf16(1, 1, 32, 64), bf16(1, 1, 32, 64)),
]
R = f16(1, 3, 1, 16)
GOOD_950 = [
    good(MUL, "quarter", bf16(2, 3, 4, 16), bf16(1, 3, 1, 16), bf16(1, 3, 1, 16), "quarter"),
    good(MUL, "neighbours to halves", f16(2, 3, 4, 16), R, R, "interleave-half"),
    good(MUL, "neighbours to halves, three dimensions", f16(5, 2, 8), *[f16(1, 1, 8)] * 2, "interleave-half"),
    good(MUL, "wider", f16(2, 3, 4, 1024), *[f16(1, 3, 1, 1024)] * 2),
    good(MUL, "one element of coefficients", f16(2, 3, 4, 16), *[f16(1, 1, 1, 16)] * 2),
    good(MUL, "coefficients of no batch", f16(2, 3, 4, 16), *[f16(1, 3, 4, 16)] * 2),
    good(MUL, "interleave by batches", f16(2, 3, 4, 16), *[f16(2, 3, 1, 16)] * 2, "interleave"),
    good(MUL, "many heads of few positions", f16(2, 64, 3, 128), *[f16(1, 1, 3, 128)] * 2),
]
WRONG_950 = [bad(MUL, "rotate", "a matrix", f16(1, 5, 2, 8), f16(1, 5, 1, 8), f16(1, 5, 1, 8), "half", TURN.half())]
C = f16(2, 1, 4, 64)
WRONG = [
    bad(MUL, "input", "int8", i8(2, 3, 4, 16), R, R),
    bad(MUL, "input", "two dimensions", f16(3, 16), f16(3, 16), f16(3, 16)),
    bad(MUL, "input.size(-1)", "an odd width", f16(2, 3, 4, 15), f16(1, 3, 1, 15), f16(1, 3, 1, 15)),
    bad(MUL, "r1", "r1 int8", f16(2, 3, 4, 16), i8(1, 3, 1, 16), R),
    bad(MUL, "r1", "r1 of another rank", f16(2, 3, 4, 16), f16(3, 1, 16), R),
    bad(MUL, "r1.size(-1)", "r1 too narrow", f16(2, 3, 4, 16), f16(1, 3, 1, 8), R),
    bad(MUL, "r1.size(1)", "r1 of other positions", f16(2, 3, 4, 16), f16(1, 2, 1, 16), R),
    bad(MUL, "r2.size(1)", "r2 of fewer positions", f16(2, 3, 4, 16), R, f16(1, 1, 1, 16)),
    bad(MUL, "input.size(-1)", "too wide", f16(2, 3, 4, 898), *[f16(1, 3, 1, 898)] * 2),
    bad(MUL, "r1.size", "coefficients of no batch", f16(2, 3, 4, 16), *[f16(1, 3, 4, 16)] * 2),
    bad(MUL, "r1.size", "one element of coefficients", f16(2, 3, 4, 16), *[f16(1, 1, 1, 16)] * 2),
    bad(MUL, "r1.size", "interleave by batches", f16(2, 3, 4, 16), *[f16(2, 3, 1, 16)] * 2, "interleave"),
    bad(MUL, "r1.size", "interleave by all", f16(5, 2, 16), *[f16(5, 2, 16)] * 2, "interleave"),
    bad(MUL, "input", "many heads of few positions", f16(2, 64, 3, 128), *[f16(1, 1, 3, 128)] * 2),
    bad(MUL, "input", "heads before positions, narrow", f32(2, 8, 3, 56), *[f32(1, 1, 3, 56)] * 2),
    bad(MUL, "rotate", "a matrix of another dtype", f16(2, 3, 4, 16), R, R, "half", f32(16, 16)),
    bad(MUL, "input", "a matrix for three dimensions", f16(5, 2, 8), *[f16(5, 1, 8)] * 2, "half", TURN.half()),
    bad(MUL, "rotary_mode", "quarter", f16(2, 3, 4, 16), R, R, "quarter"),
    bad(MUL, "rotate", "a matrix of three dimensions", f16(2, 3, 4, 16), R, R, "half", f16(1, 16, 16)),
    bad(MUL, "rotate.size(1)", "a matrix too narrow", f16(2, 3, 4, 16), R, R, "half", f16(16, 8)),
    bad(ROPE, "x", "float32", f32(2, 3, 4, 64), f32(2, 1, 4, 64), f32(2, 1, 4, 64)),
    bad(ROPE, "x", "three dimensions", f16(3, 4, 64), C, C),
    bad(ROPE, "x.size(3)", "another width", f16(2, 3, 4, 128), f16(2, 1, 4, 128), f16(2, 1, 4, 128)),
    bad(ROPE, "cos", "cos of another dtype", f16(2, 3, 4, 64), bf16(2, 1, 4, 64), C),
    bad(ROPE, "cos.size(1)", "cosines for every head", f16(2, 3, 4, 64), f16(2, 3, 4, 64), C),
    bad(ROPE, "sin.size(2)", "sin of fewer positions", f16(2, 3, 4, 64), C, f16(2, 1, 1, 64)),
]


@st.composite
def mul_calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=3, max_size=4)))
    r = tuple(mostly(draw, 1, st.just(size)) for size in shape[:-1]) + shape[-1:]
    x = tensor(draw, shape, *FLOATS)
    return (
        x,
        tensor(draw, r, x.dtype),
        tensor(draw, r, x.dtype),
        draw(st.sampled_from(["half", "interleave", "x"])),
    ), {}


@st.composite
def rope_calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    batch, heads, length = draw(SIZES), draw(SIZES), draw(SIZES)
    x, width = tensor(draw, (batch, heads, length, 64), *HALVES), (batch, 1, mostly(draw, length, st.just(1)), 64)
    return (x, tensor(draw, width, x.dtype), tensor(draw, width, x.dtype)), {}


CALLS = {"npu_rotary_mul": mul_calls(), "npu_interleave_rope": rope_calls()}


def turn(x: Any, interleave: bool) -> Any:
    """Pairs (a, b) become (-b, a), element by element."""
    half, out = x.shape[-1] // 2, np.empty_like(x)
    for pair in range(half):
        a, b = (2 * pair, 2 * pair + 1) if interleave else (pair, pair + half)
        out[..., a], out[..., b] = -x[..., b], x[..., a]
    return out


def expected_mul(x: torch.Tensor, r1: torch.Tensor, r2: torch.Tensor, mode: str) -> torch.Tensor:
    """In float32 until the end."""
    one, two, three = (floats(tensor.to(x.dtype)) for tensor in (x, r1, r2))
    return torch.from_numpy(one * two + turn(one, mode == "interleave") * three).to(x.dtype)


def expected_mul_950(x: torch.Tensor, r1: torch.Tensor, r2: torch.Tensor, mode: str) -> torch.Tensor:
    one, two, three = (floats(tensor.to(x.dtype)) for tensor in (x, r1, r2))
    if mode == "interleave-half":
        one = np.concatenate([one[..., ::2], one[..., 1::2]], -1)
    turned = turn(one, mode == "interleave")
    if mode == "quarter":
        turned = np.concatenate([turn(half, False) for half in np.split(one, 2, -1)], -1)
    return torch.from_numpy(one * two + turned * three).to(x.dtype)


def expected_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    wide = floats(x)
    apart = np.concatenate([wide[..., ::2], wide[..., 1::2]], -1)
    return torch.from_numpy(apart * floats(cos) + turn(apart, False) * floats(sin)).to(x.dtype)


@st.composite
def mul_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    make, width = draw(st.sampled_from([f16, bf16, f32])), draw(st.sampled_from([2, 16, 128]))
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 3)), width)
    r = (1, shape[1], width)
    other = draw(st.sampled_from([make, f32]))
    return (make(*shape), other(*r), other(*r), draw(st.sampled_from(["half", "interleave"]))), {}


@st.composite
def mul_data_950(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    (x, r1, r2, mode), _ = draw(mul_data())
    other = draw(st.sampled_from(["interleave-half", mode if x.size(-1) % 4 else "quarter"]))
    return (x, r1, r2, draw(st.sampled_from([mode, other]))), {}


@st.composite
def rope_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    make, length = draw(st.sampled_from([f16, bf16])), draw(st.integers(1, 4))
    positions = (2, 1, draw(st.sampled_from([1, length])), 64)
    return (make(2, 3, length, 64), make(*positions), make(*positions)), {}


STATEMENTS = {
    "npu_rotary_mul": Statement(expected_mul, mul_data()),
    "npu_interleave_rope": Statement(expected_rope, rope_data()),
}
STATEMENTS_950 = {"npu_rotary_mul": Statement(expected_mul_950, mul_data_950())}
X = bf16(2, 3, 4, 16)
R1 = bf16(1, 3, 1, 16)
GOLDEN = {
    "rotary_mul-half": (lambda x, c, s: torch_npu.npu_rotary_mul(x, c, s), (X, R1, R1.clone())),
    "rotary_mul-interleave": (
        lambda x, c, s: torch_npu.npu_rotary_mul(x, c, s, "interleave"),
        (X, R1.float(), R1.float()),
    ),
    "interleave_rope-float16": (torch_npu.npu_interleave_rope, (f16(2, 3, 4, 64), C, C.clone())),
}

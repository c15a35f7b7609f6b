"""Calls of npu_moe_token_permute and npu_moe_token_unpermute."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import FLOATS, SIZES, Draw, mostly, optional, tensor
from support.call_table import Case, Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, f64, i8

IN, OUT = "moe_token_permute", "moe_token_unpermute"
EXPERTS = torch.tensor([[3, 0], [1, 3], [0, 7], [3, 2]], dtype=torch.int32)
INDEX = torch.tensor([5, 0, 2, 6, 1, 7, 4, 3], dtype=torch.int32)
GOOD = [
    good(IN, "one expert a token", f32(4, 16), EXPERTS[:, 0]),
    good(IN, "two", bf16(4, 16), EXPERTS.long()),
    good(IN, "so many rows", f16(4, 5), EXPERTS, 3),
    good(IN, "more rows than there are", i8(4, 16), EXPERTS, 99),
    good(IN, "all but so many", f16(4, 16), EXPERTS, -2),
    good(IN, "none left", f16(4, 16), EXPERTS, num_out_tokens=-8),
    good(OUT, "copied", f32(8, 16), INDEX),
    good(OUT, "weighted", bf16(8, 16), INDEX, bf16(4, 2)),
    good(OUT, "weights of another dtype", f16(8, 16), INDEX, f32(4, 2)),
    good(OUT, "dropped rows", bf16(5, 16), INDEX, f32(4, 2), restore_shape=[1]),
    good(OUT, "weights of zero", bf16(8, 16), INDEX, torch.tensor([[0.0, 1.0], [0.5, 0.0], [0.0, 0.0], [1.0, 2.0]])),
    good(OUT, "transposed", f16(16, 8).t(), INDEX, f16(4, 2)),
]
WRONG = [
    bad(IN, "tokens", "tokens float64", f64(4, 16), EXPERTS),
    bad(IN, "tokens", "tokens of one dimension", f16(4), EXPERTS),
    bad(IN, "tokens.size(0)", "no token", f16(0, 16), EXPERTS[:0]),
    bad(IN, "indices", "indices float32", f16(4, 16), EXPERTS.float()),
    bad(IN, "indices", "indices of three dimensions", f16(4, 16), EXPERTS[None]),
    bad(IN, "indices.size(0)", "indices short", f16(4, 16), EXPERTS[:3]),
    bad(IN, "indices.size(1)", "no expert", f16(4, 16), EXPERTS[:, :0]),
    bad(IN, "indices.size(1)", "too many experts", f16(1, 1), torch.zeros(1, 513, dtype=torch.int32)),
    bad(IN, "indices.numel()", "too many pairs", i8(2**24, 1), torch.zeros(2**24, dtype=torch.int32)),
    bad(IN, "padded_mode", "padded", f16(4, 16), EXPERTS, padded_mode=True),
    bad(OUT, "permuted_tokens", "rows int8", i8(8, 16), INDEX),
    bad(OUT, "permuted_tokens", "rows of one dimension", f16(8), INDEX),
    bad(OUT, "permuted_tokens.size(0)", "no row", f16(0, 16), INDEX),
    bad(OUT, "sorted_indices", "positions int64", f16(8, 16), INDEX.long()),
    bad(OUT, "sorted_indices", "positions of two dimensions", f16(8, 16), INDEX[None]),
    bad(OUT, "sorted_indices.size(0)", "no position", f16(8, 16), INDEX[:0]),
    bad(OUT, "padded_mode", "padded", f16(8, 16), INDEX, padded_mode=True),
    bad(OUT, "probs", "probs int8", f16(8, 16), INDEX, i8(4, 2)),
    bad(OUT, "probs", "probs of one dimension", f16(8, 16), INDEX, f16(8)),
    bad(OUT, "probs.size(1)", "no probability", f16(8, 16), INDEX, f16(4, 0)),
    bad(OUT, "probs.size(1)", "too many probabilities", f16(8, 16), INDEX, f16(1, 513)),
    bad(OUT, "sorted_indices.size(0)", "probs of other pairs", f16(8, 16), INDEX, f16(3, 2)),
]
WRONG_950 = [
    bad(IN, "num_out_tokens", "all but so many", f16(4, 16), EXPERTS, -2),
    bad(IN, "num_out_tokens", "some rows of int8", i8(4, 16), EXPERTS, 3),
]
WRONG_VALUES = [
    bad(IN, "indices[", "negative expert", f16(4, 16), EXPERTS - 1),
    bad(OUT, "sorted_indices[", "negative position", f16(8, 16), INDEX - 1),
]


def golden_in() -> Case:
    def call(tokens: torch.Tensor, experts: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch_npu.npu_moe_token_permute(tokens, experts)

    return call, (bf16(4, 16), EXPERTS)


def golden_out() -> Case:
    def call(rows: torch.Tensor, positions: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_moe_token_unpermute(rows, positions, probs)

    return call, (bf16(8, 16), INDEX, bf16(4, 2))


GOLDEN = {"moe_token_permute": golden_in(), "moe_token_unpermute": golden_out()}


@st.composite
def calls_in(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    tokens, width, k = draw(SIZES), draw(SIZES), draw(st.sampled_from([None, 1, 2, 0]))
    experts = tensor(draw, (tokens,) if k is None else (tokens, k), torch.int32, torch.int64)
    many = draw(st.sampled_from([None, 0, 3, 100, -2, -100]))
    return (tensor(draw, (tokens, width), *FLOATS), experts, many, mostly(draw, False, st.just(True))), {}


@st.composite
def calls_out(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    tokens, width, k = draw(SIZES), draw(SIZES), draw(st.sampled_from([1, 2]))
    probs = optional(draw, (tokens, k), *FLOATS)
    positions = tensor(draw, (tokens * k,), torch.int32) - 1
    return (tensor(draw, (draw(SIZES), width), *FLOATS), positions, probs, mostly(draw, False, st.just(True))), {}


CALLS = {f"npu_{IN}": calls_in(), f"npu_{OUT}": calls_out()}


@st.composite
def right_in(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    tokens, k = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    x = torch.randn(tokens, draw(st.integers(1, 9)), generator=generator).to(draw(st.sampled_from(FLOATS)))
    experts = torch.randint(0, 5, (tokens, k), generator=generator, dtype=torch.int32)
    return (x, experts[:, 0] if draw(st.booleans()) else experts, draw(st.sampled_from([None, 0, 3, 99, -2, -99]))), {}


@st.composite
def right_out(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    tokens, k, rows = draw(st.integers(1, 9)), draw(st.integers(1, 4)), draw(st.integers(1, 30))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    x = torch.randn(rows, draw(st.integers(1, 9)), generator=generator).to(draw(st.sampled_from(FLOATS)))
    x[torch.rand(rows, generator=generator) < 0.1] = torch.inf
    positions = torch.randint(0, tokens * k + 1, (tokens * k,), generator=generator, dtype=torch.int32)
    probs = torch.randn(tokens, k, generator=generator).to(draw(st.sampled_from(FLOATS)))
    probs[torch.rand(tokens, k, generator=generator) < 0.2] = 0
    return (x, positions, probs if draw(st.booleans()) else None), {}


def permuted(tokens: torch.Tensor, experts: torch.Tensor, many: int | None) -> tuple[Any, ...]:
    flat = experts.reshape(-1).tolist()
    order = sorted(range(len(flat)), key=lambda pair: flat[pair])
    kept = order[: many or None]
    positions = np.zeros(len(flat), np.int32)
    positions[order] = np.arange(len(flat))
    k = len(flat) // tokens.shape[0]
    return floats(tokens)[[pair // k for pair in kept]].reshape(-1, tokens.shape[1]), positions


def unpermuted(rows: torch.Tensor, positions: torch.Tensor, probs: torch.Tensor | None) -> Any:
    """Row by row, in float32, skipping pairs that were dropped or have probability 0."""
    numbers = floats(rows)
    tokens, k = (len(positions), 1) if probs is None else probs.shape
    out = np.zeros((tokens, rows.shape[1]), np.float32)
    with np.errstate(all="ignore"):
        for token in range(tokens):
            for term in range(k):
                position = int(positions[token * k + term])
                weight = np.float32(1) if probs is None else floats(probs)[token, term]
                if position < len(numbers) and weight != 0:
                    value = numbers[position] if probs is None else numbers[position] * weight
                    out[token] = value if term == 0 else out[token] + value
    return torch.from_numpy(out).to(rows.dtype)


def unpermuted_950(rows: torch.Tensor, positions: torch.Tensor, probs: torch.Tensor | None) -> Any:
    """From zero; -1 is dropped too, and a probability of 0 is a factor like others."""
    numbers = floats(rows)
    tokens, k = (len(positions), 1) if probs is None else probs.shape
    out = np.zeros((tokens, rows.shape[1]), np.float32)
    with np.errstate(all="ignore"):
        for pair, position in enumerate(positions.tolist()):
            if 0 <= position < len(numbers):
                out[pair // k] += numbers[position] * (1 if probs is None else floats(probs)[pair // k, pair % k])
    return torch.from_numpy(out).to(rows.dtype)


def dropping(call: Any) -> Any:
    (rows, positions, probs), options = call
    return (rows, positions - 1, probs), options


STATEMENTS_950 = {
    f"npu_{IN}": Statement(permuted, right_in().filter(lambda call: (call[0][2] or 0) >= 0)),
    f"npu_{OUT}": Statement(unpermuted_950, right_out().map(dropping)),
}
STATEMENTS = {f"npu_{IN}": Statement(permuted, right_in()), f"npu_{OUT}": Statement(unpermuted, right_out())}

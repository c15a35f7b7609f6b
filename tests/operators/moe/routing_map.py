"""Calls of npu_moe_token_permute_with_routing_map and npu_moe_token_unpermute_with_routing_map."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import FLOATS, SIZES, Draw, mostly, optional, tensor
from support.call_table import Case, Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, f64, i8

IN, OUT = "moe_token_permute_with_routing_map", "moe_token_unpermute_with_routing_map"
TWO = torch.tensor([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 1, 1]], dtype=torch.int8)
UNEVEN = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 1, 0], [0, 1, 0]], dtype=torch.bool)
INDEX = torch.tensor([0, 5, 2, 6, 1, 3, 4, 7], dtype=torch.int32)
TOKENS = torch.tensor([0, 1, 1, 2, 0, 3], dtype=torch.int32)
FOUR = [4, 16]
GOOD = [
    good(IN, "two experts a token", bf16(4, 16), TWO, num_out_tokens=8),
    good(IN, "with probabilities", f32(4, 5), TWO.bool(), probs=f32(4, 3), num_out_tokens=11),
    good(IN, "one expert", f16(4, 16), torch.eye(4, dtype=torch.bool), probs=f16(4, 4)),
    good(IN, "fewer rows than tokens", f16(4, 16), TWO, probs=f16(4, 3), num_out_tokens=3),
    good(IN, "padded", f16(4, 16), UNEVEN, num_out_tokens=8, drop_and_pad=True),
    good(IN, "padded, with probabilities", f32(4, 16), UNEVEN, probs=f32(4, 3), num_out_tokens=9, drop_and_pad=True),
    good(IN, "padded, from columns", f32(16, 4).t(), UNEVEN.t().contiguous().t(), num_out_tokens=12, drop_and_pad=True),
    good(OUT, "summed", f32(8, 16), INDEX, FOUR, routing_map=TWO),
    good(OUT, "without a map", bf16(8, 16), INDEX, FOUR),
    good(OUT, "weighted", bf16(8, 16), INDEX, FOUR, probs=bf16(4, 3), routing_map=TWO.bool()),
    good(OUT, "padded", f16(6, 16), TOKENS, FOUR, drop_and_pad=True),
    good(OUT, "padded and weighted", bf16(6, 16), TOKENS, FOUR, probs=bf16(4, 3), drop_and_pad=True),
    good(OUT, "transposed", f32(16, 8).t(), INDEX, FOUR, probs=f32(4, 3), routing_map=TWO),
]
PADDED = {"num_out_tokens": 6, "drop_and_pad": True}
MANY = torch.zeros(1, 513, dtype=torch.int8)
WRONG = [
    bad(IN, "tokens", "tokens int8", i8(4, 16), TWO),
    bad(IN, "tokens", "tokens of one dimension", f16(4), TWO),
    bad(IN, "tokens.size(1)", "tokens without elements", f16(4, 0), TWO),
    bad(IN, "routing_map", "map int32", f16(4, 16), TWO.int()),
    bad(IN, "routing_map", "map of one dimension", f16(4, 16), TWO[:, 0]),
    bad(IN, "routing_map.size(1)", "no expert", f16(4, 16), TWO[:, :0]),
    bad(IN, "routing_map.size(0)", "map short", f16(4, 16), TWO[:3]),
    bad(IN, "probs", "probabilities of another dtype", f16(4, 16), TWO, probs=f32(4, 3)),
    bad(IN, "probs", "probabilities of one dimension", f16(4, 16), TWO, probs=f16(4)),
    bad(IN, "probs.size(1)", "probabilities of other experts", f16(4, 16), TWO, probs=f16(4, 2)),
    bad(IN, "num_out_tokens", "negative", f16(4, 16), TWO, num_out_tokens=-1),
    bad(IN, "num_out_tokens", "more than pairs", f16(4, 16), TWO, num_out_tokens=13),
    bad(IN, "num_out_tokens // tokens.size(0)", "too many", f16(1, 1), MANY, num_out_tokens=513),
    bad(IN, "tokens.size(0)", "too many tokens", f16(2**24, 1), torch.zeros(2**24, 1, dtype=torch.int8), **PADDED),
    bad(OUT, "permuted_tokens", "rows float64", f64(8, 16), INDEX, FOUR),
    bad(OUT, "permuted_tokens", "rows of one dimension", f16(8), INDEX, FOUR),
    bad(OUT, "permuted_tokens.size(0)", "no row", f16(0, 16), INDEX[:0], FOUR),
    bad(OUT, "sorted_indices", "positions int64", f16(8, 16), INDEX.long(), FOUR),
    bad(OUT, "sorted_indices", "positions of two dimensions", f16(8, 16), INDEX[None], FOUR),
    bad(OUT, "sorted_indices.size(0)", "positions short", f16(8, 16), INDEX[:7], FOUR),
    bad(OUT, "restore_shape", "one size", f16(8, 16), INDEX, [4]),
    bad(OUT, "restore_shape[0]", "no token", f16(8, 16), INDEX, [0, 16]),
    bad(OUT, "restore_shape[1]", "another width", f16(8, 16), INDEX, [4, 15]),
    bad(OUT, "routing_map", "map int32", f16(8, 16), INDEX, FOUR, routing_map=TWO.int()),
    bad(OUT, "routing_map", "no map for the probabilities", f16(8, 16), INDEX, FOUR, probs=f16(4, 3)),
    bad(OUT, "probs", "probabilities of another dtype", f16(8, 16), INDEX, FOUR, probs=f32(4, 3), routing_map=TWO),
    bad(OUT, "probs.size(1)", "of no expert", f16(8, 16), INDEX, FOUR, probs=f16(4, 0), routing_map=TWO),
    bad(OUT, "probs.size(0)", "probabilities short", f16(8, 16), INDEX, FOUR, probs=f16(3, 3), routing_map=TWO),
    bad(OUT, "probs.size(1)", "of other experts", f16(8, 16), INDEX, FOUR, probs=f16(4, 2), routing_map=TWO),
    bad(OUT, "multiple of restore_shape[0]", "tokens of several numbers", f16(8, 16), INDEX, [3, 16]),
    bad(OUT, "multiple of probs.size(1)", "uneven", f16(8, 16), INDEX, FOUR, probs=f16(4, 3), drop_and_pad=True),
    bad(OUT, "must be at most 512", "too many rows", f16(513, 1), torch.zeros(513, dtype=torch.int32), [1, 1]),
]
WRONG_VALUES = [
    bad(IN, "routing_map[1]", "an expert more", f16(4, 16), TWO | UNEVEN.to(torch.int8), num_out_tokens=8),
    bad(IN, "routing_map[0][0]", "a number that is neither", f16(4, 16), TWO * 2, num_out_tokens=8),
    bad(IN, "routing_map[0][0]", "a negative number", f16(4, 16), -TWO, **PADDED),
    bad(OUT, "sorted_indices[0]", "negative position", f16(8, 16), INDEX - 1, FOUR),
    bad(OUT, "sorted_indices[5]", "no such token", f16(6, 16), TOKENS, [3, 16], drop_and_pad=True),
    bad(OUT, "routing_map[0]", "an expert less", f16(8, 16), INDEX, FOUR, probs=f16(4, 3), routing_map=UNEVEN),
]


def golden_in() -> Case:
    def call(tokens: torch.Tensor, routing_map: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows, _, positions = torch_npu.npu_moe_token_permute_with_routing_map(tokens, routing_map, num_out_tokens=8)
        return rows, positions

    return call, (bf16(4, 16), TWO)


def golden_out() -> Case:
    def call(
        rows: torch.Tensor, positions: torch.Tensor, routing_map: torch.Tensor, probs: torch.Tensor
    ) -> torch.Tensor:
        return torch_npu.npu_moe_token_unpermute_with_routing_map(
            rows, positions, FOUR, probs=probs, routing_map=routing_map
        )

    return call, (bf16(8, 16), INDEX, TWO, bf16(4, 3))


GOLDEN = {IN: golden_in(), OUT: golden_out()}


@st.composite
def calls_in(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    tokens, width, experts = draw(SIZES), draw(SIZES), draw(st.sampled_from([1, 2, 3]))
    routing_map = tensor(draw, (tokens, experts), torch.bool, torch.int8)
    x = tensor(draw, (tokens, width), *FLOATS)
    many = draw(st.sampled_from([None, 0, tokens * experts, tokens * experts + 1, -1]))
    options = {"probs": optional(draw, (tokens, experts), x.dtype), "drop_and_pad": draw(st.booleans())}
    return (x, routing_map), {**options, "num_out_tokens": many}


@st.composite
def calls_out(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    tokens, width, k = draw(SIZES), draw(SIZES), draw(st.sampled_from([1, 2]))
    rows = tensor(draw, (tokens * k, width), *FLOATS)
    positions = tensor(draw, (tokens * k,), torch.int32) - 1
    shape = [mostly(draw, tokens, SIZES), mostly(draw, width, SIZES)]
    routing_map = optional(draw, (tokens, k), torch.bool, torch.int8)
    options = {"probs": optional(draw, (tokens, k), rows.dtype), "drop_and_pad": draw(st.booleans())}
    return (rows, positions, shape), {**options, "routing_map": routing_map}


CALLS = {f"npu_{IN}": calls_in(), f"npu_{OUT}": calls_out(), f"_npu_{OUT}": calls_out()}


def drawn_map(generator: torch.Generator, tokens: int, experts: int, k: int | None) -> torch.Tensor:
    """A map with a fixed number of experts for each token, or with any number."""
    keys = torch.rand(tokens, experts, generator=generator)
    return keys < 0.4 if k is None else keys.argsort(1).argsort(1) < k


@st.composite
def right_in(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    tokens, experts, padded = draw(st.integers(1, 9)), draw(st.integers(1, 5)), draw(st.booleans())
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    many = draw(st.integers(0, tokens * experts))
    routing_map = drawn_map(generator, tokens, experts, None if padded else many // tokens)
    dtype = draw(st.sampled_from(FLOATS))
    x = torch.randn(tokens, draw(st.integers(1, 9)), generator=generator).to(dtype)
    probs = torch.randn(tokens, experts, generator=generator).to(dtype) if draw(st.booleans()) else None
    routing_map = routing_map.to(draw(st.sampled_from([torch.bool, torch.int8])))
    return (x, routing_map), {"probs": probs, "num_out_tokens": many, "drop_and_pad": padded}


@st.composite
def right_out(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    tokens, experts, padded = draw(st.integers(1, 9)), draw(st.integers(1, 5)), draw(st.booleans())
    k = draw(st.integers(1, experts))
    count = tokens * k if not padded else experts * k
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    dtype = draw(st.sampled_from(FLOATS))
    rows = torch.randn(count, draw(st.integers(1, 9)), generator=generator).to(dtype)
    probs = torch.randn(tokens, experts, generator=generator).to(dtype) if draw(st.booleans()) else None
    positions = torch.randint(tokens if padded else count, (count,), generator=generator, dtype=torch.int32)
    options = {"routing_map": drawn_map(generator, tokens, experts, k), "drop_and_pad": padded}
    return (rows, positions, [tokens, rows.size(1)]), {**options, "probs": probs}


def permuted(x: Any, routing_map: Any, probs: Any, num_out_tokens: int, drop_and_pad: bool) -> tuple[Any, ...]:
    """The rows, expert by expert, and the position of each pair, token by token."""
    chosen, tokens = routing_map.numpy().astype(bool), len(routing_map)
    pairs = [(expert, token) for expert in range(chosen.shape[1]) for token in range(tokens) if chosen[token, expert]]
    if drop_and_pad:
        capacity = num_out_tokens // chosen.shape[1]
        pairs = []
        for expert in range(chosen.shape[1]):
            own = [token for token in range(tokens) if chosen[token, expert]]
            others = [token for token in range(tokens) if not chosen[token, expert]]
            pairs += [(expert, token) for token in (own + others)[:capacity]]
        positions = [token for _, token in pairs]
    else:
        positions = [pairs.index(pair) for pair in sorted(pairs, key=lambda pair: (pair[1], pair[0]))]
    rows = floats(x)[[token for _, token in pairs]].reshape(-1, x.shape[1])
    weights = None if probs is None else np.array([floats(probs)[token, expert] for expert, token in pairs], np.float32)
    return rows, weights, np.array(positions, np.int32)


def unpermuted(rows: Any, positions: Any, shape: Any, probs: Any, routing_map: Any, drop_and_pad: bool) -> Any:
    numbers, out = floats(rows), np.zeros(shape, np.float32)
    if drop_and_pad:
        for row, token in enumerate(positions.tolist()):
            weighted = rows[row] if probs is None else rows[row] * probs[token, row * probs.shape[1] // len(rows)]
            out[token] += floats(weighted)
        return torch.from_numpy(out).to(rows.dtype)
    k = len(rows) // shape[0]
    for token in range(shape[0]):
        experts = [expert for expert, chosen in enumerate(routing_map[token].tolist()) if chosen]
        for term in range(k):
            value = numbers[int(positions[token * k + term])]
            value = value if probs is None else value * floats(probs)[token, experts[term]]
            out[token] = value if term == 0 else out[token] + value
    return torch.from_numpy(out).to(rows.dtype)


STATEMENTS = {f"npu_{IN}": Statement(permuted, right_in()), f"npu_{OUT}": Statement(unpermuted, right_out())}

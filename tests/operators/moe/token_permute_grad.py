"""Calls of the gradients of npu_moe_token_permute and npu_moe_token_unpermute, with a routing map and without."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from operators.matmul.grouped_data import Call, Data
from support.arrays import rounded
from support.call_strategies import FLOATS, Draw
from support.call_table import Call as Refused
from support.call_table import Statement, bad, good
from support.numpy_rules import floats
from support.tensors import f16, f32, i8

TOKENS, TOKENS_V2 = "moe_token_permute_grad", "moe_token_permute_grad_v2"
ROWS, ROWS_V2 = "moe_token_unpermute_grad", "moe_token_unpermute_grad_v2"
MAP_TOKENS, MAP_ROWS = "moe_token_permute_with_routing_map_grad", "moe_token_unpermute_with_routing_map_grad"
INDEX = torch.tensor([0, 5, 2, 6, 1, 3, 4, 7], dtype=torch.int32)
MAP = torch.tensor([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 1, 1]], dtype=torch.int8)
HALF = torch.float16
ROWS_OF = (INDEX, 8, HALF)
FOUR = [4, 16]
# The tokens of three rows for each expert, and of the rows of MAP, expert by expert.
PADDED = torch.tensor([0, 1, 2, 1, 2, 3, 0, 1, 3], dtype=torch.int32)
ROTATED = (torch.arange(9, dtype=torch.int32) + 4) % 9
IDS = torch.tensor([0, 2, 1, 2, 3, 0, 1, 3], dtype=torch.int32)
WEIGHED = (f16(8, 16), f16(4, 3))


def refused_rows(argument: str, label: str, rows: torch.Tensor, probs: torch.Tensor) -> Refused:
    return bad(MAP_ROWS, argument, label, f16(4, 16), INDEX, IDS, MAP, rows, probs, False, FOUR)


GOOD = [
    good(TOKENS_V2, "float16", f16(8, 16), INDEX, 4, HALF, 2),
    good(TOKENS_V2, "rows dropped", f32(5, 16), INDEX, 8, torch.float32, 1),
    good(TOKENS_V2, "no rows", f16(0, 16), INDEX, 4, HALF, 2),
    good(TOKENS, "float16", f16(4, 16), f16(8, 16), INDEX.reshape(4, 2), INDEX),
    good(TOKENS, "an expert a token", f32(8, 16), f32(8, 16), INDEX, INDEX),
    good(ROWS_V2, "no probabilities", f16(8, 16), *ROWS_OF),
    good(ROWS_V2, "rows dropped", f16(4, 16), INDEX, 5, HALF, f16(4, 2), permuted_tokens=f16(5, 16)),
    good(ROWS_V2, "float32 probabilities", f16(4, 16), *ROWS_OF, f32(4, 2), permuted_tokens=f16(8, 16)),
    good(ROWS, "no probabilities", f16(8, 16), f16(8, 16), INDEX),
    good(ROWS, "probabilities", f32(8, 16), f32(4, 16), INDEX, f32(4, 2)),
    good(MAP_TOKENS, "no probabilities", f16(8, 16), None, INDEX, MAP, 3, 4, False),
    good(MAP_TOKENS, "probabilities", f16(8, 16), f16(8), INDEX, MAP, 3, 4, False),
    good(MAP_TOKENS, "padded", f32(9, 16), f32(9), PADDED, MAP, 3, 4, True),
    good(MAP_ROWS, "no probabilities", f16(4, 16), INDEX, INDEX, MAP, None, None, False, FOUR),
    good(MAP_ROWS, "probabilities", f16(4, 16), INDEX, IDS, MAP, *WEIGHED, False, FOUR),
    good(MAP_ROWS, "padded", f32(4, 16), ROTATED, PADDED, MAP, f32(9, 16), f32(4, 3), True, FOUR),
]
WRONG = [
    bad(TOKENS_V2, "padded_mode", "padded", f16(8, 16), INDEX, 4, HALF, 2, True),
    bad(TOKENS_V2, "grad_permuted_tokens", "integers", i8(8, 16), INDEX, 4, torch.int8, 2),
    bad(TOKENS_V2, "tokens_dtype", "another dtype", f16(8, 16), INDEX, 4, torch.float32, 2),
    bad(TOKENS_V2, "grad_permuted_tokens", "one dimension", f16(8), INDEX, 4, HALF, 2),
    bad(TOKENS_V2, "num_topK", "no expert", f16(8, 16), INDEX, 4, HALF, 0),
    bad(TOKENS_V2, "num_topK", "too many experts", f16(8, 16), torch.zeros(513, dtype=torch.int32), 1, HALF, 513),
    bad(TOKENS_V2, "sorted_indices", "positions int64", f16(8, 16), INDEX.long(), 4, HALF, 2),
    bad(TOKENS_V2, "sorted_indices", "positions of two dimensions", f16(8, 16), INDEX[None], 4, HALF, 2),
    bad(TOKENS_V2, "tokens_size_0", "positions for fewer tokens", f16(8, 16), INDEX, 5, HALF, 2),
    bad(TOKENS, "tokens", "tokens of one dimension", f16(4), f16(8, 16), INDEX.reshape(4, 2), INDEX),
    bad(TOKENS, "indices", "indices of three dimensions", f16(4, 16), f16(8, 16), INDEX.reshape(2, 2, 2), INDEX),
    bad(TOKENS, "tokens.size(1)", "another width", f16(4, 15), f16(8, 16), INDEX.reshape(4, 2), INDEX),
    bad(ROWS_V2, "padded_mode", "padded", f16(4, 16), *ROWS_OF, f16(4, 2), True),
    bad(ROWS_V2, "permuted_tokens_dtype", "another dtype", f16(8, 16), INDEX, 8, torch.float32),
    bad(ROWS_V2, "permuted_tokens", "no rows for the probabilities", f16(4, 16), *ROWS_OF, f16(4, 2)),
    bad(ROWS_V2, "permuted_tokens", "rows float32", f16(4, 16), *ROWS_OF, f16(4, 2), permuted_tokens=f32(8, 16)),
    bad(ROWS_V2, "permuted_tokens_size_0", "more rows", f16(8, 16), INDEX, 9, HALF, None, permuted_tokens=f16(8, 16)),
    bad(ROWS_V2, "probs", "integers", f16(4, 16), *ROWS_OF, i8(4, 2), permuted_tokens=f16(8, 16)),
    bad(ROWS_V2, "probs", "one dimension", f16(4, 16), *ROWS_OF, f16(4), permuted_tokens=f16(8, 16)),
    bad(ROWS_V2, "probs.size(0)", "fewer tokens", f16(4, 16), *ROWS_OF, f16(3, 2), permuted_tokens=f16(8, 16)),
    bad(ROWS_V2, "sorted_indices", "positions short", f16(4, 16), *ROWS_OF, f16(4, 3), permuted_tokens=f16(8, 16)),
    bad(ROWS, "permuted_tokens", "another dtype", f32(8, 16), f16(8, 16), INDEX),
    bad(ROWS, "permuted_tokens", "one dimension", f16(8), f16(8, 16), INDEX),
    bad(ROWS, "permuted_tokens.size(1)", "another width", f16(8, 15), f16(8, 16), INDEX),
    bad(MAP_TOKENS, "permuted_token_out_grad", "no rows", None, f16(8), INDEX, MAP, 3, 4, False),
    bad(MAP_TOKENS, "permuted_token_out_grad", "integers", i8(8, 16), None, INDEX, MAP, 3, 4, False),
    bad(MAP_TOKENS, "permuted_token_out_grad", "one dimension", f16(8), None, INDEX, MAP, 3, 4, False),
    bad(MAP_TOKENS, "sorted_indices", "positions int64", f16(8, 16), None, INDEX.long(), MAP, 3, 4, False),
    bad(MAP_TOKENS, "sorted_indices", "positions of two dimensions", f16(8, 16), None, INDEX[None], MAP, 3, 4, False),
    bad(MAP_TOKENS, "sorted_indices.size(0)", "positions short", f16(8, 16), None, INDEX[:7], MAP, 3, 4, False),
    bad(MAP_TOKENS, "routing_map", "map int32", f16(8, 16), None, INDEX, MAP.int(), 3, 4, False),
    bad(MAP_TOKENS, "tokens_num", "other tokens", f16(8, 16), None, INDEX, MAP, 3, 5, False),
    bad(MAP_TOKENS, "experts_num", "other experts", f16(8, 16), None, INDEX, MAP, 2, 4, False),
    bad(MAP_TOKENS, "multiple of tokens_num", "uneven", f16(7, 16), None, INDEX[:7], MAP, 3, 4, False),
    bad(MAP_TOKENS, "multiple of experts_num", "padded, uneven", f16(8, 16), None, INDEX, MAP, 3, 4, True),
    bad(MAP_TOKENS, "probs_grad", "another dtype", f16(8, 16), f32(8), INDEX, MAP, 3, 4, False),
    bad(MAP_TOKENS, "probs_grad", "two dimensions", f16(8, 16), f16(8, 1), INDEX, MAP, 3, 4, False),
    bad(MAP_TOKENS, "probs_grad.size(0)", "short", f16(8, 16), f16(7), INDEX, MAP, 3, 4, False),
    bad(MAP_ROWS, "unpermuted_tokens_grad", "integers", i8(4, 16), INDEX, INDEX, MAP, None, None, False, FOUR),
    bad(MAP_ROWS, "unpermuted_tokens_grad", "one dimension", f16(4), INDEX, INDEX, *[None] * 3, False, FOUR),
    bad(MAP_ROWS, "unpermuted_tokens_grad.size(1)", "no width", f16(4, 0), INDEX, INDEX, *[None] * 3, False, FOUR),
    refused_rows("probs.size(0)", "fewer tokens", f16(8, 16), f16(3, 3)),
    refused_rows("permuted_tokens", "rows float32", f32(8, 16), f16(4, 3)),
    refused_rows("permuted_tokens", "rows of one dimension", f16(8), f16(4, 3)),
    refused_rows("permuted_tokens.size(0)", "a row too few", f16(7, 16), f16(4, 3)),
    refused_rows("permuted_tokens.size(1)", "another width", f16(8, 15), f16(4, 3)),
    bad(MAP_ROWS, "out_index", "int64", f16(4, 16), INDEX.long(), INDEX, MAP, None, None, False, FOUR),
    bad(MAP_ROWS, "permuted_token_id.size(0)", "short", f16(4, 16), INDEX, INDEX[:7], MAP, None, None, False, FOUR),
    bad(MAP_ROWS, "unpermuted_tokens_grad.size(0)", "uneven", f16(3, 16), INDEX, INDEX, *[None] * 3, False, FOUR),
    bad(MAP_ROWS, "permuted_tokens", "no rows", f16(4, 16), INDEX, INDEX, MAP, None, f16(4, 3), False, FOUR),
    bad(MAP_ROWS, "routing_map", "no map", f16(4, 16), INDEX, INDEX, None, *WEIGHED, False, FOUR),
    bad(MAP_ROWS, "probs.size(1)", "other experts", f16(4, 16), INDEX, INDEX, MAP, f16(8, 16), f16(4, 2), False, FOUR),
    bad(MAP_ROWS, "multiple of probs.size(1)", "padded", f16(4, 16), INDEX, INDEX, MAP, *WEIGHED, True, FOUR),
]
WRONG_VALUES = [
    bad(MAP_TOKENS, "sorted_indices[7]", "no such row", f16(8, 16), None, INDEX + 1, MAP, 3, 4, False),
    bad(MAP_ROWS, "out_index[3]", "a row twice", f32(4, 16), PADDED, PADDED, MAP, None, None, True, FOUR),
    bad(MAP_ROWS, "out_index[7]", "no such row", f16(4, 16), INDEX + 1, INDEX, MAP, None, None, False, FOUR),
]


@st.composite
def of_tokens(draw: Draw) -> Call:
    data = Data(draw)
    tokens, k, dtype = data.one_of(1, 2, 5, 9), data.one_of(1, 2, 4), data.one_of(*FLOATS)
    grad = data.eighths(dtype, data.one_of(0, 1, tokens, tokens * k), data.one_of(1, 8, 9))
    positions = torch.from_numpy(data.random.permutation(tokens * k).astype(np.int32))
    return (grad, positions, tokens, dtype, k), {}


def tokens_grad(grad: torch.Tensor, positions: torch.Tensor, tokens: int, _: torch.dtype, k: int) -> Any:
    values, out = floats(grad), np.zeros((tokens, grad.shape[1]), np.float32)
    for pair, position in enumerate(positions.tolist()):
        if position < len(values):
            out[pair // k] = values[position] if pair % k == 0 else out[pair // k] + values[position]
    return rounded(out, grad.dtype)


@st.composite
def of_rows(draw: Draw) -> Call:
    (rows, positions, tokens, dtype, k), _ = draw(of_tokens())
    data = Data(draw)
    probs = data.eighths(data.one_of(*FLOATS), tokens, k) if data.one_of(True, False) else None
    grad = data.eighths(dtype, tokens if probs is not None else tokens * k, rows.size(1))
    options = {"probs": probs, "permuted_tokens": None if probs is None else rows}
    return (grad, positions, rows.size(0), dtype), options


def rows_grad(grad: Any, positions: Any, count: int, dtype: Any, probs: Any, permuted_tokens: Any) -> tuple[Any, ...]:
    values, k = floats(grad), 1 if probs is None else probs.shape[1]
    out = np.zeros((count, grad.shape[1]), np.float32)
    weights = None if probs is None else np.zeros(probs.shape, np.float32)
    for pair, position in enumerate(positions.tolist()):
        if position < count:
            token, term = divmod(pair, k)
            out[position] = values[token] if probs is None else values[token] * floats(probs)[token, term]
            if weights is not None:
                weights[token, term] = np.sum(floats(permuted_tokens)[position] * values[token])
    return rounded(out, dtype), None if weights is None else rounded(weights, probs.dtype)


@st.composite
def of_tokens_first(draw: Draw) -> Call:
    (grad, positions, tokens, dtype, k), _ = draw(of_tokens())
    experts = torch.zeros((tokens, k) if k > 1 else (tokens,), dtype=torch.int32)
    return (torch.zeros(tokens, grad.size(1), dtype=dtype), grad, experts, positions), {}


def tokens_grad_first(tokens: Any, grad: Any, experts: Any, positions: Any) -> Any:
    k = experts.shape[1] if experts.dim() == 2 else 1
    return tokens_grad(grad, positions, len(tokens), tokens.dtype, k)


@st.composite
def of_rows_first(draw: Draw) -> Call:
    (grad, positions, count, dtype), options = draw(of_rows())
    rows = options["permuted_tokens"]
    rows = torch.zeros(count, grad.size(1), dtype=dtype) if rows is None else rows
    return (rows, grad, positions), {"probs": options["probs"]}


def rows_grad_first(rows: Any, grad: Any, positions: Any, probs: Any) -> tuple[Any, ...]:
    return rows_grad(grad, positions, len(rows), rows.dtype, probs, None if probs is None else rows)


def drawn_map(data: Data, tokens: int, experts: int, k: int) -> torch.Tensor:
    order = np.argsort(data.random.random((tokens, experts)), axis=1)
    chosen = np.zeros((tokens, experts), np.int8)
    np.put_along_axis(chosen, order[:, :k], 1, axis=1)
    return torch.from_numpy(chosen).to(data.one_of(torch.int8, torch.bool))


@st.composite
def by_map(draw: Draw) -> tuple[Data, torch.Tensor, torch.Tensor, torch.Tensor, bool]:
    """A map, the positions of each token's pairs, the token of each padded row, and whether rows are padded."""
    data = Data(draw)
    tokens, experts, padded = data.one_of(1, 3, 6), data.one_of(1, 2, 5), data.one_of(True, False)
    k = data.one_of(*range(1, experts + 1))
    routing_map = drawn_map(data, tokens, experts, k)
    if padded:
        capacity = data.one_of(1, tokens)
        token_of = np.concatenate([data.random.permutation(tokens)[:capacity] for _ in range(experts)])
        rows = np.arange(experts * capacity)
        return data, routing_map, torch.from_numpy(rows.astype(np.int32)), torch.from_numpy(token_of).int(), padded
    rows = data.random.permutation(tokens * k).astype(np.int32)
    return data, routing_map, torch.from_numpy(rows), torch.zeros(tokens * k, dtype=torch.int32), padded


@st.composite
def of_tokens_by_map(draw: Draw) -> Call:
    data, routing_map, positions, token_of, padded = draw(by_map())
    dtype, rows = data.one_of(*FLOATS), len(positions)
    probs_grad = data.eighths(dtype, rows) if data.one_of(True, False) else None
    tokens, experts = routing_map.shape
    grad = data.eighths(dtype, rows, data.one_of(1, 8, 9))
    return (grad, probs_grad, token_of if padded else positions, routing_map, experts, tokens, padded), {}


def tokens_grad_by_map(grad: Any, probs_grad: Any, index: Any, routing_map: Any, *sizes: Any) -> tuple[Any, ...]:
    """Row by row: its token, and the expert whose row it is."""
    experts, tokens, padded = sizes
    out, weights = np.zeros((tokens, grad.shape[1]), np.float32), np.zeros((tokens, experts), np.float32)
    for row, token, expert in pairs_of(index, index, routing_map, len(grad), padded):
        out[token] += floats(grad)[row]
        if probs_grad is not None:
            weights[token, expert] = floats(probs_grad)[row]
    return rounded(out, grad.dtype), None if probs_grad is None else rounded(weights, grad.dtype)


def pairs_of(positions: Any, token_of: Any, routing_map: Any, rows: int, padded: bool) -> list[tuple[int, int, int]]:
    if padded:
        capacity = rows // routing_map.shape[1]
        return [(row, int(token_of[row]), row // capacity) for row in range(rows)]
    taken = [
        (token, expert) for token, one in enumerate(routing_map.tolist()) for expert, is_in in enumerate(one) if is_in
    ]
    return [(int(position), *pair) for position, pair in zip(positions, taken, strict=True)]


@st.composite
def of_rows_by_map(draw: Draw) -> Call:
    data, routing_map, positions, token_of, padded = draw(by_map())
    dtype, width = data.one_of(*FLOATS), data.one_of(1, 8, 9)
    grad = data.eighths(dtype, len(routing_map), width)
    weighted = data.one_of(True, False)
    rows = data.eighths(dtype, len(positions), width) if weighted else None
    probs = data.eighths(dtype, *routing_map.shape) if weighted else None
    if padded:
        positions = torch.from_numpy(data.random.permutation(len(positions)).astype(np.int32))
        token_of = token_of[positions]
    return (grad, positions, token_of, routing_map, rows, probs, padded, list(grad.shape)), {}


def rows_grad_by_map(
    grad: Any, positions: Any, token_of: Any, routing_map: Any, permuted: Any, probs: Any, padded: bool, _: Any
) -> tuple[Any, ...]:
    out = np.zeros((len(positions), grad.shape[1]), np.float32)
    weights = np.zeros(routing_map.shape, np.float32)
    tokens = dict(zip(positions.tolist(), token_of.tolist(), strict=True))
    for row, token, expert in pairs_of(positions, tokens, routing_map, len(positions), padded):
        out[row] = floats(grad)[token] * (1 if probs is None else floats(probs)[token, expert])
        if probs is not None:
            weights[token, expert] = np.sum(floats(permuted)[row] * floats(grad)[token])
    return rounded(out, grad.dtype), None if probs is None else rounded(weights, probs.dtype)


STATEMENTS = {
    f"npu_{TOKENS}": Statement(tokens_grad_first, of_tokens_first(), sample=10),
    f"npu_{ROWS}": Statement(rows_grad_first, of_rows_first(), sample=10),
    f"npu_{MAP_TOKENS}": Statement(tokens_grad_by_map, of_tokens_by_map(), sample=20),
    f"npu_{MAP_ROWS}": Statement(rows_grad_by_map, of_rows_by_map(), sample=20),
    f"npu_{TOKENS_V2}": Statement(tokens_grad, of_tokens(), sample=20),
    f"npu_{ROWS_V2}": Statement(rows_grad, of_rows(), sample=20),
}
npu = torch.ops.npu
GOLDEN = {
    TOKENS_V2: (lambda g, at: npu.npu_moe_token_permute_grad_v2(g, at, 4, HALF, 2), (f16(8, 16), INDEX)),
    ROWS_V2: (
        lambda g, at, p, x: npu.npu_moe_token_unpermute_grad_v2(g, at, 8, HALF, p, permuted_tokens=x),
        (f16(4, 16), INDEX, f16(4, 2), f16(8, 16)),
    ),
    MAP_TOKENS: (
        lambda g, p, at, m: npu.npu_moe_token_permute_with_routing_map_grad(g, p, at, m, 3, 4, False),
        (f16(8, 16), f16(8), INDEX, MAP),
    ),
    MAP_ROWS: (
        lambda g, at, to, m, x, p: npu.npu_moe_token_unpermute_with_routing_map_grad(g, at, to, m, x, p, False, FOUR),
        (f16(4, 16), INDEX, IDS, MAP, *WEIGHED),
    ),
}

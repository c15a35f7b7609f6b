"""Calls of the gradients of npu_moe_token_permute and npu_moe_token_unpermute, with a routing map and without."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from operators.matmul.grouped_data import Call, Data
from support.arrays import rounded
from support.call import Statement, bad, good
from support.generated import FLOATS, Draw
from support.rules import floats
from support.tensors import f16, f32, i8

TOKENS, TOKENS_V2 = "moe_token_permute_grad", "moe_token_permute_grad_v2"
ROWS, ROWS_V2 = "moe_token_unpermute_grad", "moe_token_unpermute_grad_v2"
MAP_TOKENS, MAP_ROWS = "moe_token_permute_with_routing_map_grad", "moe_token_unpermute_with_routing_map_grad"
PLACES = torch.tensor([0, 5, 2, 6, 1, 3, 4, 7], dtype=torch.int32)
MAP = torch.tensor([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 1, 1]], dtype=torch.int8)
HALF = torch.float16
ROWS_OF = (PLACES, 8, HALF)
FOUR = [4, 16]
# The tokens of three rows for each expert, and of the rows of MAP, expert by expert.
PADDED = torch.tensor([0, 1, 2, 1, 2, 3, 0, 1, 3], dtype=torch.int32)
ROTATED = (torch.arange(9, dtype=torch.int32) + 4) % 9
IDS = torch.tensor([0, 2, 1, 2, 3, 0, 1, 3], dtype=torch.int32)
WEIGHED = (f16(8, 16), f16(4, 3))
GOOD = [
    good(TOKENS_V2, "float16", f16(8, 16), PLACES, 4, HALF, 2),
    good(TOKENS_V2, "rows dropped", f32(5, 16), PLACES, 8, torch.float32, 1),
    good(TOKENS_V2, "no rows", f16(0, 16), PLACES, 4, HALF, 2),
    good(TOKENS, "float16", f16(4, 16), f16(8, 16), PLACES.reshape(4, 2), PLACES),
    good(TOKENS, "an expert a token", f32(8, 16), f32(8, 16), PLACES, PLACES),
    good(ROWS_V2, "no probabilities", f16(8, 16), *ROWS_OF),
    good(ROWS_V2, "rows dropped", f16(4, 16), PLACES, 5, HALF, f16(4, 2), permuted_tokens=f16(5, 16)),
    good(ROWS_V2, "float32 probabilities", f16(4, 16), *ROWS_OF, f32(4, 2), permuted_tokens=f16(8, 16)),
    good(ROWS, "no probabilities", f16(8, 16), f16(8, 16), PLACES),
    good(ROWS, "probabilities", f32(8, 16), f32(4, 16), PLACES, f32(4, 2)),
    good(MAP_TOKENS, "no probabilities", f16(8, 16), None, PLACES, MAP, 3, 4, False),
    good(MAP_TOKENS, "probabilities", f16(8, 16), f16(8), PLACES, MAP, 3, 4, False),
    good(MAP_TOKENS, "padded", f32(9, 16), f32(9), PADDED, MAP, 3, 4, True),
    good(MAP_ROWS, "no probabilities", f16(4, 16), PLACES, PLACES, MAP, None, None, False, FOUR),
    good(MAP_ROWS, "probabilities", f16(4, 16), PLACES, IDS, MAP, *WEIGHED, False, FOUR),
    good(MAP_ROWS, "padded", f32(4, 16), ROTATED, PADDED, MAP, f32(9, 16), f32(4, 3), True, FOUR),
]
WRONG = [
    bad(TOKENS_V2, "padded_mode", "padded", f16(8, 16), PLACES, 4, HALF, 2, True),
    bad(TOKENS_V2, "grad_permuted_tokens", "integers", i8(8, 16), PLACES, 4, torch.int8, 2),
    bad(TOKENS_V2, "tokens_dtype", "another dtype", f16(8, 16), PLACES, 4, torch.float32, 2),
    bad(TOKENS_V2, "grad_permuted_tokens", "one dimension", f16(8), PLACES, 4, HALF, 2),
    bad(TOKENS_V2, "num_topK", "no expert", f16(8, 16), PLACES, 4, HALF, 0),
    bad(TOKENS_V2, "num_topK", "too many experts", f16(8, 16), torch.zeros(513, dtype=torch.int32), 1, HALF, 513),
    bad(TOKENS_V2, "sorted_indices", "places int64", f16(8, 16), PLACES.long(), 4, HALF, 2),
    bad(TOKENS_V2, "sorted_indices", "places of two dimensions", f16(8, 16), PLACES[None], 4, HALF, 2),
    bad(TOKENS_V2, "tokens_size_0", "places for fewer tokens", f16(8, 16), PLACES, 5, HALF, 2),
    bad(TOKENS, "tokens", "tokens of one dimension", f16(4), f16(8, 16), PLACES.reshape(4, 2), PLACES),
    bad(TOKENS, "indices", "indices of three dimensions", f16(4, 16), f16(8, 16), PLACES.reshape(2, 2, 2), PLACES),
    bad(TOKENS, "tokens.size(1)", "another width", f16(4, 15), f16(8, 16), PLACES.reshape(4, 2), PLACES),
    bad(ROWS_V2, "padded_mode", "padded", f16(4, 16), *ROWS_OF, f16(4, 2), True),
    bad(ROWS_V2, "permuted_tokens_dtype", "another dtype", f16(8, 16), PLACES, 8, torch.float32),
    bad(ROWS_V2, "permuted_tokens", "no rows for the probabilities", f16(4, 16), *ROWS_OF, f16(4, 2)),
    bad(ROWS_V2, "permuted_tokens_size_0", "more rows", f16(8, 16), PLACES, 9, HALF, None, permuted_tokens=f16(8, 16)),
    bad(ROWS_V2, "probs", "integers", f16(4, 16), *ROWS_OF, i8(4, 2), permuted_tokens=f16(8, 16)),
    bad(ROWS_V2, "probs", "one dimension", f16(4, 16), *ROWS_OF, f16(4), permuted_tokens=f16(8, 16)),
    bad(ROWS_V2, "probs.size(0)", "fewer tokens", f16(4, 16), *ROWS_OF, f16(3, 2), permuted_tokens=f16(8, 16)),
    bad(ROWS_V2, "sorted_indices", "places short", f16(4, 16), *ROWS_OF, f16(4, 3), permuted_tokens=f16(8, 16)),
    bad(ROWS, "permuted_tokens", "another dtype", f32(8, 16), f16(8, 16), PLACES),
    bad(ROWS, "permuted_tokens", "one dimension", f16(8), f16(8, 16), PLACES),
    bad(ROWS, "permuted_tokens.size(1)", "another width", f16(8, 15), f16(8, 16), PLACES),
    bad(MAP_TOKENS, "permuted_token_out_grad", "integers", i8(8, 16), None, PLACES, MAP, 3, 4, False),
    bad(MAP_TOKENS, "permuted_token_out_grad", "one dimension", f16(8), None, PLACES, MAP, 3, 4, False),
    bad(MAP_TOKENS, "sorted_indices", "places int64", f16(8, 16), None, PLACES.long(), MAP, 3, 4, False),
    bad(MAP_TOKENS, "sorted_indices.size(0)", "places short", f16(8, 16), None, PLACES[:7], MAP, 3, 4, False),
    bad(MAP_TOKENS, "routing_map", "map int32", f16(8, 16), None, PLACES, MAP.int(), 3, 4, False),
    bad(MAP_TOKENS, "tokens_num", "other tokens", f16(8, 16), None, PLACES, MAP, 3, 5, False),
    bad(MAP_TOKENS, "experts_num", "other experts", f16(8, 16), None, PLACES, MAP, 2, 4, False),
    bad(MAP_TOKENS, "multiple of tokens_num", "uneven", f16(7, 16), None, PLACES[:7], MAP, 3, 4, False),
    bad(MAP_TOKENS, "multiple of experts_num", "padded, uneven", f16(8, 16), None, PLACES, MAP, 3, 4, True),
    bad(MAP_TOKENS, "probs_grad", "another dtype", f16(8, 16), f32(8), PLACES, MAP, 3, 4, False),
    bad(MAP_TOKENS, "probs_grad", "two dimensions", f16(8, 16), f16(8, 1), PLACES, MAP, 3, 4, False),
    bad(MAP_TOKENS, "probs_grad.size(0)", "short", f16(8, 16), f16(7), PLACES, MAP, 3, 4, False),
    bad(MAP_ROWS, "unpermuted_tokens_grad", "integers", i8(4, 16), PLACES, PLACES, MAP, None, None, False, FOUR),
    bad(MAP_ROWS, "out_index", "int64", f16(4, 16), PLACES.long(), PLACES, MAP, None, None, False, FOUR),
    bad(MAP_ROWS, "permuted_token_id.size(0)", "short", f16(4, 16), PLACES, PLACES[:7], MAP, None, None, False, FOUR),
    bad(MAP_ROWS, "unpermuted_tokens_grad.size(0)", "uneven", f16(3, 16), PLACES, PLACES, *[None] * 3, False, FOUR),
    bad(MAP_ROWS, "permuted_tokens", "no rows", f16(4, 16), PLACES, PLACES, MAP, None, f16(4, 3), False, FOUR),
    bad(MAP_ROWS, "routing_map", "no map", f16(4, 16), PLACES, PLACES, None, *WEIGHED, False, FOUR),
    bad(
        MAP_ROWS, "probs.size(1)", "other experts", f16(4, 16), PLACES, PLACES, MAP, f16(8, 16), f16(4, 2), False, FOUR
    ),
    bad(MAP_ROWS, "multiple of probs.size(1)", "padded", f16(4, 16), PLACES, PLACES, MAP, *WEIGHED, True, FOUR),
]
WRONG_VALUES = [
    bad(MAP_TOKENS, "sorted_indices[7]", "no such row", f16(8, 16), None, PLACES + 1, MAP, 3, 4, False),
    bad(MAP_ROWS, "out_index[3]", "a row twice", f32(4, 16), PADDED, PADDED, MAP, None, None, True, FOUR),
    bad(MAP_ROWS, "out_index[7]", "no such row", f16(4, 16), PLACES + 1, PLACES, MAP, None, None, False, FOUR),
]


@st.composite
def of_tokens(draw: Draw) -> Call:
    data = Data(draw)
    tokens, k, dtype = data.one_of(1, 2, 5, 9), data.one_of(1, 2, 4), data.one_of(*FLOATS)
    grad = data.eighths(dtype, data.one_of(0, 1, tokens, tokens * k), data.one_of(1, 8, 9))
    places = torch.from_numpy(data.random.permutation(tokens * k).astype(np.int32))
    return (grad, places, tokens, dtype, k), {}


def tokens_grad(grad: torch.Tensor, places: torch.Tensor, tokens: int, _: torch.dtype, k: int) -> Any:
    given, out = floats(grad), np.zeros((tokens, grad.shape[1]), np.float32)
    for pair, place in enumerate(places.tolist()):
        if place < len(given):
            out[pair // k] = given[place] if pair % k == 0 else out[pair // k] + given[place]
    return rounded(out, grad.dtype)


@st.composite
def of_rows(draw: Draw) -> Call:
    (rows, places, tokens, dtype, k), _ = draw(of_tokens())
    data = Data(draw)
    probs = data.eighths(data.one_of(*FLOATS), tokens, k) if data.one_of(True, False) else None
    grad = data.eighths(dtype, tokens if probs is not None else tokens * k, rows.size(1))
    given = {"probs": probs, "permuted_tokens": None if probs is None else rows}
    return (grad, places, rows.size(0), dtype), given


def rows_grad(grad: Any, places: Any, count: int, dtype: Any, probs: Any, permuted_tokens: Any) -> tuple[Any, ...]:
    given, k = floats(grad), 1 if probs is None else probs.shape[1]
    out = np.zeros((count, grad.shape[1]), np.float32)
    weights = None if probs is None else np.zeros(probs.shape, np.float32)
    for pair, place in enumerate(places.tolist()):
        if place < count:
            token, term = divmod(pair, k)
            out[place] = given[token] if probs is None else given[token] * floats(probs)[token, term]
            if weights is not None:
                weights[token, term] = np.sum(floats(permuted_tokens)[place] * given[token])
    return rounded(out, dtype), None if weights is None else rounded(weights, probs.dtype)


STATEMENTS = {
    f"npu_{TOKENS_V2}": Statement(tokens_grad, of_tokens(), sample=20),
    f"npu_{ROWS_V2}": Statement(rows_grad, of_rows(), sample=20),
}
npu = torch.ops.npu
GOLDEN = {
    TOKENS_V2: (lambda g, at: npu.npu_moe_token_permute_grad_v2(g, at, 4, HALF, 2), (f16(8, 16), PLACES)),
    ROWS_V2: (
        lambda g, at, p, x: npu.npu_moe_token_unpermute_grad_v2(g, at, 8, HALF, p, permuted_tokens=x),
        (f16(4, 16), PLACES, f16(4, 2), f16(8, 16)),
    ),
    MAP_TOKENS: (
        lambda g, p, at, m: npu.npu_moe_token_permute_with_routing_map_grad(g, p, at, m, 3, 4, False),
        (f16(8, 16), f16(8), PLACES, MAP),
    ),
    MAP_ROWS: (
        lambda g, at, to, m, x, p: npu.npu_moe_token_unpermute_with_routing_map_grad(g, at, to, m, x, p, False, FOUR),
        (f16(4, 16), PLACES, IDS, MAP, *WEIGHED),
    ),
}

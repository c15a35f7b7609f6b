"""Calls of npu_lightning_indexer, npu_sparse_flash_attention and their quantised forms."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import Draw
from support.call_table import Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, ends, f16, f32, i8

INDEXER, QUANT = "lightning_indexer", "quant_lightning_indexer"
SPARSE, KV_QUANT = "sparse_flash_attention", "kv_quant_sparse_flash_attention"
COUNT, SAMPLE = 20, 10


def whole(make: Any, *shape: int) -> torch.Tensor:
    """Small integers, whose sums are exact in float32 in any order."""
    return (make(*shape).float() / 2).round().clamp(-3, 3).to(torch.int8 if make is i8 else make(1).dtype)


def table() -> torch.Tensor:
    return torch.tensor([[3, 0], [1, 4]], dtype=torch.int32)


PAGED = {"actual_seq_lengths_key": ends(32, 21), "block_table": table(), "layout_key": "PA_BSND", "sparse_count": COUNT}
PACKED = {"actual_seq_lengths_query": ends(2, 6), "layout_query": "TND", **PAGED}


def indexer(make: Any = bf16, *tokens: int, keys: tuple[int, ...] = (5, 16), weights: Any = None) -> tuple[Any, ...]:
    """Queries of four heads, pages of keys."""
    rows = tokens or (2, 3)
    return whole(make, *rows, 4, 128), whole(make, *keys, 1, 128), whole(weights or make, *rows, 4)


def quantised(*tokens: int, keys: tuple[int, ...] = (5, 16)) -> tuple[Any, ...]:
    rows = tokens or (2, 3)
    scales = f16(*rows, 4).abs(), f16(*keys, 1).abs()
    return i8(*rows, 4, 128), i8(*keys, 1, 128), f16(*rows, 4) / 64, *scales, 0, 0


def named(*rows: int, blocks: int, width: int = 5) -> torch.Tensor:
    """Some distinct blocks for each query, then -1."""
    generator = torch.Generator().manual_seed(blocks)
    flat = torch.full((int(np.prod(rows)), width), -1, dtype=torch.int32)
    for row, indices in enumerate(flat):
        some = 1 + row % min(width, blocks)
        indices[:some] = torch.randperm(blocks, generator=generator)[:some]
    return flat.view(*rows, 1, width)


def sparse(make: Any = bf16, *tokens: int, keys: tuple[int, ...] = (5, 16), blocks: int = 20) -> tuple[Any, ...]:
    rows, key = tokens or (2, 3), make(*keys, 1, 512) / 4
    return make(*rows, 4, 512) / 4, key, key.clone(), named(*rows, blocks=blocks), 0.0625


def ropes(make: Any = bf16, *tokens: int, keys: tuple[int, ...] = (5, 16)) -> dict[str, Any]:
    parts = {"query_rope": make(*(tokens or (2, 3)), 4, 64), "key_rope": make(*keys, 1, 64)}
    return {**parts, "attention_mode": 2}


def latent(make: Any = bf16, *tokens: int, keys: tuple[int, ...] = (5, 16), blocks: int = 20) -> tuple[Any, ...]:
    """Keys of int8, followed by rope channels and scales as bytes."""
    rows, whole_keys, rope = tokens or (2, 3), i8(*keys, 1, 512), make(*keys, 1, 64)
    scales = f32(*keys, 1, 4).sigmoid() / 64
    key = torch.cat([whole_keys, rope.view(torch.int8), scales.view(torch.int8)], -1)
    return make(*rows, 4, 576) / 4, key, whole_keys, named(*rows, blocks=blocks), 0.0625, 2, 2


LATENT = {"attention_mode": 2}
KV = {"actual_seq_lengths_kv": ends(32, 21), "block_table": table(), "layout_kv": "PA_BSND"}
KV_PACKED = {"actual_seq_lengths_query": ends(2, 6), "layout_query": "TND", **KV}
BLOCKS = {"sparse_block_size": 4, "sparse_mode": 0}
GOOD = [
    good(INDEXER, "rows", *indexer(bf16, keys=(2, 19)), sparse_count=7, sparse_mode=0),
    good(INDEXER, "packed", *indexer(f16, 6, weights=f32), **PACKED),
    good(QUANT, "packed", *quantised(6), **{**PACKED, "sparse_mode": 0}),
    good(SPARSE, "packed blocks", *sparse(f16, 6, blocks=5), **KV_PACKED, **ropes(f16, 6), **BLOCKS),
    good(SPARSE, "rows", *sparse(bf16, keys=(2, 19), blocks=19), **ropes(keys=(2, 19))),
]
GOOD += [
    good(KV_QUANT, "packed blocks", *latent(f16, 6, blocks=5), **KV_PACKED, **LATENT, **BLOCKS),
]
A, Q, S, R, L = indexer(), quantised(), sparse(), ropes(), latent()


def other(of: tuple[Any, ...], index: int, value: Any) -> tuple[Any, ...]:
    return *of[:index], value, *of[index + 1 :]


WRONG = [
    bad(op, argument, label, *args, **options)
    for op, argument, label, args, options in (
        (INDEXER, "query", "float32", other(A, 0, f32(2, 3, 4, 128)), PAGED),
        (INDEXER, "query", "three dimensions", other(A, 0, bf16(6, 4, 128)), PAGED),
        (INDEXER, "query.size(0)", "no batches", indexer(bf16, 0, 3), PAGED),
        (INDEXER, "query.size(-1)", "64 channels", other(A, 0, bf16(2, 3, 4, 64)), PAGED),
        (INDEXER, "query.size(-2)", "128 heads", (bf16(2, 3, 128, 128), A[1], bf16(2, 3, 128)), PAGED),
        (INDEXER, "key", "another dtype", other(A, 1, f16(5, 16, 1, 128)), PAGED),
        (INDEXER, "key.size(-2)", "two heads of keys", other(A, 1, bf16(5, 16, 2, 128)), PAGED),
        (INDEXER, "key.size(1)", "blocks of 24", other(A, 1, bf16(5, 24, 1, 128)), PAGED),
        (INDEXER, "key.size(1)", "blocks of 2048", other(A, 1, bf16(2, 2048, 1, 128)), PAGED),
        (INDEXER, "key.size(0)", "keys of another batch", indexer(bf16, keys=(3, 19)), {}),
        (INDEXER, "weights", "another dtype", other(A, 2, f16(2, 3, 4)), PAGED),
        (INDEXER, "weights.size(2)", "fewer weights", other(A, 2, bf16(2, 3, 2)), PAGED),
        (INDEXER, "layout_query", "BNSD", A, {**PAGED, "layout_query": "BNSD"}),
        (INDEXER, "layout_key", "SBND", A, {**PAGED, "layout_key": "SBND"}),
        (INDEXER, "layout_key", "mixed", A, {**PACKED, "layout_query": "BSND", "layout_key": "TND"}),
        (INDEXER, "block_table", "none", A, {**PAGED, "block_table": None}),
        (INDEXER, "block_table", "rows in a table", indexer(keys=(2, 19)), {"block_table": table()}),
        (INDEXER, "block_table", "int64", A, {**PAGED, "block_table": table().long()}),
        (INDEXER, "block_table.size(0)", "one row", A, {**PAGED, "block_table": table()[:1]}),
        (INDEXER, "actual_seq_lengths_query", "none", indexer(bf16, 6), {**PACKED, "actual_seq_lengths_query": None}),
        (
            INDEXER,
            "actual_seq_lengths_query.size(0)",
            "no length",
            indexer(bf16, 6),
            {
                **PACKED,
                "actual_seq_lengths_query": ends(),
                "actual_seq_lengths_key": ends(),
                "block_table": table()[:0],
            },
        ),
        (INDEXER, "actual_seq_lengths_key", "none", A, {**PAGED, "actual_seq_lengths_key": None}),
        (INDEXER, "actual_seq_lengths_key", "int64", A, {**PAGED, "actual_seq_lengths_key": ends(32, 21).long()}),
        (INDEXER, "actual_seq_lengths_key.size(0)", "one", A, {**PAGED, "actual_seq_lengths_key": ends(32)}),
        (INDEXER, "sparse_count", "2500", A, {**PAGED, "sparse_count": 2500}),
        (INDEXER, "sparse_mode", "2", A, {**PAGED, "sparse_mode": 2}),
        (INDEXER, "pre_tokens", "a window", A, {**PAGED, "pre_tokens": 5}),
        (INDEXER, "next_tokens", "a window", A, {**PAGED, "next_tokens": 5}),
        (INDEXER, "return_value", "values of pages", A, {**PAGED, "return_value": True}),
        (QUANT, "query", "bfloat16", other(Q, 0, bf16(2, 3, 4, 128)), PAGED),
        (QUANT, "query_dequant_scale", "float32", other(Q, 3, f32(2, 3, 4)), PAGED),
        (QUANT, "key_dequant_scale.size(1)", "scales of fewer keys", other(Q, 4, f16(5, 8, 1)), PAGED),
        (QUANT, "query_quant_mode", "1", other(Q, 5, 1), PAGED),
        (QUANT, "key_quant_mode", "1", other(Q, 6, 1), PAGED),
        (QUANT, "sparse_count", "3072", Q, {**PAGED, "sparse_count": 3072}),
        (QUANT, "query_dtype", "Ascend 950", Q, {**PAGED, "query_dtype": 290}),
        (SPARSE, "attention_mode", "0", S, {**KV, **R, "attention_mode": 0}),
        (SPARSE, "sinks", "Ascend 950", S, {**KV, **R, "sinks": f32(4)}),
        (SPARSE, "query.size(-2)", "three heads", other(S, 0, bf16(2, 3, 3, 512)), {**KV, **R}),
        (SPARSE, "query.size(-1)", "128 channels", other(S, 0, bf16(2, 3, 4, 128)), {**KV, **R}),
        (SPARSE, "value", "none", other(S, 2, None), {**KV, **R}),
        (SPARSE, "value.size(0)", "fewer values", other(S, 2, bf16(4, 16, 1, 512)), {**KV, **R}),
        (SPARSE, "query_rope", "none", S, {**KV, **R, "query_rope": None}),
        (SPARSE, "key_rope.size(-1)", "a wide rope part", S, {**KV, **R, "key_rope": bf16(5, 16, 1, 128)}),
        (SPARSE, "sparse_indices", "int64", other(S, 3, S[3].long()), {**KV, **R}),
        (SPARSE, "sparse_indices.size(1)", "rows of fewer queries", other(S, 3, S[3][:, :2]), {**KV, **R}),
        (SPARSE, "sparse_indices.size(-2)", "two heads of rows", other(S, 3, S[3].repeat(1, 1, 2, 1)), {**KV, **R}),
        (SPARSE, "sparse_block_size", "3", S, {**KV, **R, "sparse_block_size": 3}),
        (SPARSE, "sparse_block_size", "more than a page", S, {**KV, **R, "sparse_block_size": 32}),
        (SPARSE, "layout_kv", "SBND", S, {**KV, **R, "layout_kv": "SBND"}),
        (KV_QUANT, "query.size(-1)", "no rope channels", other(L, 0, bf16(2, 3, 4, 512)), {**KV, **LATENT}),
        (KV_QUANT, "key", "bfloat16", other(L, 1, bf16(5, 16, 1, 656)), {**KV, **LATENT}),
        (KV_QUANT, "key.size(-1)", "no scales", other(L, 1, i8(5, 16, 1, 640)), {**KV, **LATENT}),
        (KV_QUANT, "value.size(-1)", "narrow values", other(L, 2, i8(5, 16, 1, 256)), {**KV, **LATENT}),
        (KV_QUANT, "key_quant_mode", "1", other(L, 5, 1), {**KV, **LATENT}),
        (KV_QUANT, "value_quant_mode", "1", other(L, 6, 1), {**KV, **LATENT}),
        (KV_QUANT, "key_dequant_scale", "scales apart", L, {**KV, **LATENT, "key_dequant_scale": f32(5, 16, 1, 4)}),
        (KV_QUANT, "attention_mode", "0", L, KV),
        (KV_QUANT, "quant_scale_repo_mode", "0", L, {**KV, **LATENT, "quant_scale_repo_mode": 0}),
        (KV_QUANT, "tile_size", "64", L, {**KV, **LATENT, "tile_size": 64}),
        (KV_QUANT, "rope_head_dim", "32", L, {**KV, **LATENT, "rope_head_dim": 32}),
        (KV_QUANT, "sparse_block_size", "32", L, {**KV, **LATENT, "sparse_block_size": 32}),
        (KV_QUANT, "key_dtype", "Ascend 950", L, {**KV, **LATENT, "key_dtype": 290}),
        (SPARSE, "return_softmax_lse", "of pages", S, {**KV, **R, "return_softmax_lse": True}),
    )
]
WRONG_VALUES = [
    bad(INDEXER, "actual_seq_lengths_key[0]", "too long", *A, **{**PAGED, "actual_seq_lengths_key": ends(33, 21)}),
    bad(INDEXER, "block_table[0][0]", "no such block", *A, **{**PAGED, "block_table": table() + 3}),
    bad(SPARSE, "sparse_indices[0][0]", "no such key", *other(S, 3, S[3] + 40), **KV, **R),
    bad(SPARSE, "value", "other values", *other(S, 2, S[2] * 2), **KV, **R),
    bad(KV_QUANT, "value", "other values", *other(L, 2, L[2] + 1), **KV, **LATENT),
]


def sequences(options: dict[str, Any], rows: torch.Tensor) -> list[range]:
    """The rows of the queries of each sequence."""
    stops = options.get("actual_seq_lengths_query")
    if options.get("layout_query") == "TND":
        return [range(start, stop) for start, stop in zip([0, *stops.tolist()], stops.tolist(), strict=False)]
    length = rows.size(1)
    lengths = [length] * rows.size(0) if stops is None else stops.tolist()
    return [range(batch * length, batch * length + some) for batch, some in enumerate(lengths)]


def gathered(options: dict[str, Any], cache: torch.Tensor, batch: int, of: str) -> torch.Tensor:
    """The rows of the keys of one sequence, token by token."""
    lengths, blocks = options.get(f"actual_seq_lengths_{of}"), options.get("block_table")
    if blocks is None:
        return cache[batch] if lengths is None else cache[batch, : int(lengths[batch])]
    size = cache.size(1)
    return torch.stack([cache[int(blocks[batch, at // size]), at % size] for at in range(int(lengths[batch]))])


def chosen(query: torch.Tensor, options: dict[str, Any], score: Any) -> torch.Tensor:
    """Indices sorted by score, earlier ones first among ties."""
    count = options["sparse_count"]
    out = torch.full((query.shape[:-2].numel(), count), -1, dtype=torch.int32)
    for batch, rows in enumerate(sequences(options, query)):
        for position, row in enumerate(rows):
            values = score(batch, row)
            visible = len(values) if options.get("sparse_mode") == 0 else len(values) - len(rows) + position + 1
            order = sorted(range(max(visible, 0)), key=lambda at: (-values[at], at))[:count]
            out[row, : len(order)] = torch.tensor(order, dtype=torch.int32)
    return out.view(*query.shape[:-2], 1, count)


def expected_indexer(query: torch.Tensor, key: torch.Tensor, weights: torch.Tensor, **options: Any) -> list[Any]:
    heads, factors = floats(query).reshape(-1, 4, 128), floats(weights).reshape(-1, 4)

    def score(batch: int, row: int) -> Any:
        keys = floats(gathered(options, key, batch, "key"))[:, 0]
        return np.maximum(keys @ heads[row].T, 0) @ factors[row]

    return [chosen(query, options, score), np.empty(0, np.float32)]


def expected_quantised(query: Any, key: Any, weights: Any, scale: Any, key_scale: Any, *_: int, **options: Any) -> Any:
    heads = query.numpy().astype(np.int64).reshape(-1, 4, 128)
    factors = (weights.numpy() * scale.numpy()).reshape(-1, 4).astype(np.float32)

    def score(batch: int, row: int) -> Any:
        keys = gathered(options, key, batch, "key").numpy()[:, 0].astype(np.int64)
        parts = (np.maximum(keys @ heads[row].T, 0).astype(np.float32) / 1024).astype(np.float16).astype(np.float32)
        summed = torch.from_numpy(np.ascontiguousarray((parts * factors[row]).T)).sum(0).numpy()
        return summed * floats(gathered(options, key_scale, batch, "key"))[:, 0]

    return chosen(query, options, score)


def expected_attention(query: Any, key: Any, _: Any, indices: Any, scale: float, **options: Any) -> list[Any]:
    heads = np.concatenate([floats(query), floats(options["query_rope"])], -1).reshape(-1, 4, 576).astype(np.float64)
    size, out = options.get("sparse_block_size", 1), np.zeros((heads.shape[0], 4, 512))
    for batch, rows in enumerate(sequences(options, query)):
        values = floats(gathered(options, key, batch, "kv"))[:, 0].astype(np.float64)
        joined = np.concatenate([values, floats(gathered(options, options["key_rope"], batch, "kv"))[:, 0]], -1)
        for position, row in enumerate(rows):
            named_blocks = [index for index in indices.reshape(heads.shape[0], -1)[row].tolist() if index >= 0]
            keys = [at for block in named_blocks for at in range(block * size, min(block * size + size, len(values)))]
            visible = len(values) if options.get("sparse_mode") == 0 else len(values) - len(rows) + position + 1
            seen = [at for at in keys if at < visible]
            if seen:
                scores = heads[row] @ joined[seen].T * scale
                weights = np.exp(scores - scores.max(-1, keepdims=True))
                out[row] = weights / weights.sum(-1, keepdims=True) @ values[seen]
    empty = np.empty(0, np.float32)
    return [out.reshape(query.shape).astype(np.float32), empty, empty]


def expected_latent(query: Any, key: Any, _: Any, indices: Any, scale: float, *_modes: int, **options: Any) -> Any:
    """The same attention, over keys dequantised tile by tile."""
    scales = key[..., 640:].contiguous().view(torch.float32)
    exact = np.repeat(scales.numpy(), 128, -1) * key[..., :512].numpy().astype(np.float32)
    parts = {"query_rope": query[..., 512:], "key_rope": key[..., 512:640].contiguous().view(query.dtype)}
    keys = torch.from_numpy(exact).to(query.dtype)
    return expected_attention(query[..., :512], keys, None, indices, scale, **options, **parts)[:1]


@st.composite
def options_of(draw: Draw, of: str) -> dict[str, Any]:
    packed = draw(st.booleans())
    options: dict[str, Any] = {f"actual_seq_lengths_{of}": ends(draw(st.integers(1, 32)), draw(st.integers(1, 32)))}
    pages = draw(st.permutations(range(5)))
    options |= {"block_table": torch.tensor(pages[:4], dtype=torch.int32).view(2, 2), f"layout_{of}": "PA_BSND"}
    options["sparse_mode"] = draw(st.sampled_from([0, 3]))
    if packed:
        options |= {"layout_query": "TND", "actual_seq_lengths_query": ends(draw(st.integers(0, 6)), 6)}
    elif draw(st.booleans()):
        options["actual_seq_lengths_query"] = ends(draw(st.integers(0, 3)), 3)
    return options


@st.composite
def indexer_calls(draw: Draw, is_quantised: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    options = {**draw(options_of("key")), "sparse_count": draw(st.sampled_from([1, 5, 40]))}
    tokens = (6,) if options.get("layout_query") == "TND" else (2, 3)
    make = draw(st.sampled_from([f16, bf16]))
    return quantised(*tokens) if is_quantised else indexer(make, *tokens), options


@st.composite
def attention_calls(draw: Draw, is_quantised: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    options = draw(options_of("kv"))
    tokens = (6,) if options.get("layout_query") == "TND" else (2, 3)
    make, size = draw(st.sampled_from([f16, bf16])), draw(st.sampled_from([1, 4, 16]))
    shortest = int(options["actual_seq_lengths_kv"].min())
    blocks = -(-shortest // size)
    if is_quantised:
        return latent(make, *tokens, blocks=blocks), {**options, **LATENT, "sparse_block_size": size}
    return sparse(make, *tokens, blocks=blocks), {**options, **ropes(make, *tokens), "sparse_block_size": size}


STATEMENTS = {
    f"npu_{INDEXER}": Statement(expected_indexer, indexer_calls(False), sample=SAMPLE),
    f"npu_{QUANT}": Statement(expected_quantised, indexer_calls(True), sample=SAMPLE),
    # Weights are rounded to bfloat16, 2**-9 of each, and so is the result.
    f"npu_{SPARSE}": Statement(expected_attention, attention_calls(False), 2.0**-7, SAMPLE),
    f"npu_{KV_QUANT}": Statement(expected_latent, attention_calls(True), 2.0**-7, SAMPLE),
}


NAMED = {**KV_PACKED, **ropes(bf16, 6)}


def golden(query: Any, key: Any, weights: Any, table: Any, queries: Any, keys: Any, *others: torch.Tensor) -> Any:
    """Every node of sparse attention: both indexers select keys, and both caches are attended to."""
    whole_query, whole_key, scales, key_scales, latent_query, latent_keys, joined, pages, rope, key_rope = others
    shared = {"actual_seq_lengths_query": queries, "block_table": table, "layout_query": "TND"}
    chosen = {**shared, "actual_seq_lengths_key": keys, "layout_key": "PA_BSND", "sparse_count": COUNT}
    attended = {**shared, "actual_seq_lengths_kv": keys, "layout_kv": "PA_BSND", "attention_mode": 2}
    indices, _ = torch_npu.npu_lightning_indexer(query, key, weights, **chosen)
    others_places = torch_npu.npu_quant_lightning_indexer(
        whole_query, whole_key, weights.half(), scales, key_scales, 0, 0, **chosen
    )
    out, _, _ = torch_npu.npu_sparse_flash_attention(
        latent_query, pages, pages, indices, 0.0625, query_rope=rope, key_rope=key_rope, **attended
    )
    return out, torch_npu.npu_kv_quant_sparse_flash_attention(
        joined, latent_keys, latent_keys, others_places, 0.0625, 2, 2, **attended
    )


def golden_arguments() -> tuple[torch.Tensor, ...]:
    plain, (whole_query, whole_key, _, scales, key_scales, *_), rows = indexer(bf16, 6), quantised(6), latent(bf16, 6)
    attention = sparse(bf16, 6)
    lengths = table(), PACKED["actual_seq_lengths_query"], PACKED["actual_seq_lengths_key"]
    caches = attention[0], rows[1], rows[0], attention[1], NAMED["query_rope"], NAMED["key_rope"]
    return *plain, *lengths, whole_query, whole_key, scales, key_scales, *caches


GOLDEN = {"sparse_attention": (golden, golden_arguments())}

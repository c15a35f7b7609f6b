"""Calls of npu_gather_pa_kv_cache and its functional form."""

from typing import Any

import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import Draw, mostly, tensor
from support.call_table import Call, Statement, bad, good
from support.tensors import bf16, f16, f32, i8

NAMES = ("gather_pa_kv_cache", "gather_pa_kv_cache_functional")


def ints(*values: Any, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


TABLES = ints([1, 0, 2], [2, 2, 1])


def norm(make: Any = f16, lens: Any = None, tables: Any = TABLES, tokens: int = 7) -> tuple[torch.Tensor, ...]:
    """Two sequences in three blocks of two, of two heads."""
    lengths = ints(4, 3) if lens is None else lens
    return make(3, 2, 2, 16), make(3, 2, 2, 32), tables, lengths, make(tokens, 2, 16), make(tokens, 2, 32)


def nz(make: Any = f16, lens: Any = None, tables: Any = TABLES) -> tuple[torch.Tensor, ...]:
    """The same in mode PA_NZ."""
    c = 32 // make(1).element_size()
    lengths = ints(4, 3) if lens is None else lens
    return make(3, 2, 2, c), make(3, 4, 2, c), tables, lengths, make(7, 2 * c), make(7, 4 * c)


A, N = norm(), nz()
GOOD: list[Call] = [
    good(op, label, *args, **options)
    for op, most in zip(NAMES, (None, 2), strict=True)
    for label, args, options in (
        ("tokens", A, {}),
        ("parts", N, {}),
        ("bounds", norm(bf16, ints(0, 4, 7)), {"is_seq_lens_cumsum": True}),
        ("an offset", norm(), {"seq_offset": ints(0, 3)}),
        ("an empty sequence", norm(i8, ints(0, 6), tokens=6), {}),
        ("unused table entries are not read", norm(tables=ints([1, 0, -9], [2, 2, 99]), lens=ints(4, 3)), {}),
    )[:most]
]
GOOD_950 = [good(op, "float32", *norm(f32)) for op in NAMES]
WRONG = [
    bad(op, argument, label, *args, **options)
    for op in NAMES[:1]
    for argument, label, args, options in (
        ("key_cache", "float32", norm(f32), {}),
        ("key_cache", "caches of three dimensions", (f16(3, 2, 16), *A[1:]), {}),
        ("key_cache.size(0)", "no block", (f16(0, 2, 2, 16), f16(0, 2, 2, 32), *A[2:]), {}),
        ("value_cache", "values of another dtype", (A[0], bf16(3, 2, 2, 32), *A[2:]), {}),
        ("value_cache.size(0)", "fewer blocks of values", (A[0], f16(2, 2, 2, 32), *A[2:]), {}),
        ("value_cache.size(1)", "smaller blocks of values", (A[0], f16(3, 1, 2, 32), *A[2:]), {}),
        ("key", "keys of four dimensions", (*A[:4], f16(7, 1, 2, 16), A[5]), {}),
        ("key", "keys of another dtype", (*A[:4], bf16(7, 2, 16), A[5]), {}),
        ("key.size(2)", "narrow keys", (*A[:4], f16(7, 2, 8), A[5]), {}),
        ("key_cache.size(3)", "parts of 64 bytes", (f16(3, 2, 2, 32), *N[1:]), {}),
        ("key.size(1)", "keys of fewer parts", (*N[:4], f16(7, 16), N[5]), {}),
        ("value", "values in three dimensions", (*N[:5], f16(7, 2, 32)), {}),
        ("value.size(0)", "fewer values", (*A[:5], f16(6, 2, 32)), {}),
        ("block_tables", "int64", norm(tables=TABLES.long()), {}),
        ("block_tables", "a table of one dimension", norm(tables=TABLES[0]), {}),
        ("block_tables.size(1)", "no column", norm(tables=TABLES[:, :0]), {}),
        ("seq_lens", "int64 lengths", norm(lens=ints(4, 3, dtype=torch.int64)), {}),
        ("seq_lens", "lengths in two dimensions", norm(lens=ints([4, 3])), {}),
        ("seq_lens.size(0)", "bounds as lengths", norm(lens=ints(0, 4, 7)), {}),
        ("seq_lens.size(0)", "lengths as bounds", A, {"is_seq_lens_cumsum": True}),
        ("seq_offset", "int64 offsets", A, {"seq_offset": ints(0, 0, dtype=torch.int64)}),
        ("seq_offset", "offsets in two dimensions", A, {"seq_offset": ints([0, 0])}),
        ("seq_offset.size(0)", "one offset", A, {"seq_offset": ints(0)}),
    )
]
CUMULATIVE = {"is_seq_lens_cumsum": True}
WRONG_VALUES = [
    bad(NAMES[0], "the sum of seq_lens", "fewer tokens", *norm(lens=ints(4, 2))),
    bad(NAMES[0], "seq_lens[1]", "a negative length", *norm(lens=ints(8, -1))),
    bad(NAMES[0], "seq_lens[0]", "bounds from one", *norm(lens=ints(1, 4, 8)), **CUMULATIVE),
    bad(NAMES[0], "seq_lens[2]", "bounds that fall", *norm(lens=ints(0, 8, 7)), **CUMULATIVE),
    bad(NAMES[0], "the values: the block of key[2]", "beyond the cache", *norm(tables=ints([1, 3, 0], [2, 2, 1]))),
    bad(NAMES[0], "the values: the block of key[4]", "below 0", *norm(tables=ints([1, 0, 0], [-1, 2, 1]))),
    bad(NAMES[0], "the values: the column of block_tables for key[6]", "too far", *A, seq_offset=ints(0, 4)),
]


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    kind = draw(st.sampled_from([torch.float16, torch.bfloat16, torch.int8]))
    call = draw(st.sampled_from([norm, nz]))({torch.float16: f16, torch.bfloat16: bf16, torch.int8: i8}[kind])
    caches = [tensor(draw, tuple(like.shape), kind) for like in call[:2]]
    rows = [tensor(draw, tuple(like.shape), kind) for like in call[4:]]
    lens = draw(st.sampled_from([ints(4, 3), ints(4, 3), ints(0, 4, 7)]))
    options = {"is_seq_lens_cumsum": lens.numel() == mostly(draw, 3, st.just(2))}
    return (*caches, TABLES[: mostly(draw, 2, st.just(1))], lens, *rows), options


CALLS = {f"npu_{op}": calls() for op in NAMES}


def expected(*args: Any, seq_offset: Any, is_seq_lens_cumsum: bool) -> list[Any]:
    """Token by token."""
    key_cache, value_cache, tables, lens, *rows = args
    bounds = lens.tolist() if is_seq_lens_cumsum else [0, *lens.cumsum(0).tolist()]
    results = []
    for cache, out in zip((key_cache, value_cache), rows, strict=True):
        tokens = []
        for sequence in range(2):
            first = 0 if seq_offset is None else int(seq_offset[sequence]) // 2
            for position in range(bounds[sequence + 1] - bounds[sequence]):
                block = cache[int(tables[sequence, first + position // 2])]
                tokens.append(
                    (block[position % 2] if out.dim() == 3 else block[:, position % 2]).reshape(out.shape[1:])
                )
        results.append(torch.stack(tokens))
    return results


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    tables = torch.tensor([[draw(st.integers(0, 2)) for _ in range(6)] for _ in range(2)], dtype=torch.int32)
    first, cumulative = draw(st.integers(0, 7)), draw(st.booleans())
    lens = ints(0, first, 7) if cumulative else ints(first, 7 - first)
    offset = draw(st.sampled_from([None, ints(1, 2), ints(4, 3)]))
    call = draw(st.sampled_from([norm, nz]))(draw(st.sampled_from([f16, bf16, i8])), lens, tables)
    return call, {"seq_offset": offset, "is_seq_lens_cumsum": cumulative}


STATEMENTS = {f"npu_{NAMES[1]}": Statement(expected, with_data())}
GOLDEN = {"gather_pa_kv_cache-tokens": (torch_npu.npu_gather_pa_kv_cache_functional, A)}

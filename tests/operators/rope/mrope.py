"""Calls of npu_mrope."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import FLOATS, SIZES, Draw, mostly, tensor
from support.call_table import Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, i8

OP = "mrope"


def at(*values: Any, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def call(make: Any = bf16, head: int = 32, width: int = 32, positions: Any = None) -> tuple[Any, ...]:
    """Three tokens, two heads of queries and one of keys, five positions in the cache."""
    where = at(4, 0, 2) if positions is None else positions
    return where, make(3, 2 * head), make(3, head), make(5, width), head


ROWS, FOUR = at([4, 0, 2], [1, 3, 2], [0, 0, 4]), at([4, 0, 2], [1, 3, 2], [0, 0, 4], [2, 2, 2])
A, THREE = call(), call(head=128, width=128, positions=ROWS)
S = {"mrope_section": [16, 24, 24]}
ANY = {"rotary_mode": None, "cache_mode": "interleave"}  # which one row of positions does not ask for
GOOD = [
    good(OP, "bfloat16", *A),
    good(OP, "a part of a head", *call(f16, 64, 32), mrope_section=[0, 0, 0], rotary_mode="interleave"),
    good(OP, "int32 positions, and modes", *call(positions=at(4, 4, 1, dtype=torch.int32)), **ANY),
    good(OP, "three sections", *THREE, **S),
    good(OP, "three sections among one another", *THREE, mrope_section=[24, 20, 20], cache_mode="interleave"),
    good(OP, "sections of eleven", *call(f16, 64, 64, ROWS), mrope_section=[11, 11, 10], cache_mode="interleave"),
    good(OP, "four sections", *call(f32, 128, 128, FOUR), mrope_section=[16, 16, 16, 16]),
]
WRONG = [
    bad(OP, "query", "int8", A[0], i8(3, 64), *A[2:]),
    bad(OP, "query", "three dimensions", A[0], bf16(3, 2, 32), *A[2:]),
    bad(OP, "query.size(1)", "part of a head", A[0], bf16(3, 40), *A[2:]),
    bad(OP, "key", "keys of another dtype", *A[:2], f16(3, 32), *A[3:]),
    bad(OP, "key.size(0)", "fewer keys", *A[:2], bf16(2, 32), *A[3:]),
    bad(OP, "key.size(1)", "part of a key", *A[:2], bf16(3, 40), *A[3:]),
    bad(OP, "cos_sin_cache", "a cache of another dtype", *A[:3], f32(5, 32), 32),
    bad(OP, "cos_sin_cache", "a cache of three dimensions", *A[:3], bf16(5, 1, 32), 32),
    bad(OP, "cos_sin_cache.size(1)", "a width of 16 in half precision", *call(width=16)),
    bad(OP, "cos_sin_cache.size(1)", "wider than a head", *call(width=64)),
    bad(OP, "head_size", "heads of 16 in half precision", *call(head=16, width=32)),
    bad(OP, "head_size", "no head size", *A[:4], 0),
    bad(OP, "positions", "float positions", *call(positions=f32(3))),
    bad(OP, "positions", "rows without sections", *call(positions=ROWS)),
    bad(OP, "positions", "one row for three sections", *call(head=128, width=128), **S),
    bad(OP, "positions.size(0)", "four rows for three sections", *call(head=128, width=128, positions=FOUR), **S),
    bad(OP, "positions.size(-1)", "fewer positions", *call(positions=at(1, 2))),
    bad(OP, "mrope_section", "other sections", *THREE, mrope_section=[32, 16, 16]),
    bad(OP, "mrope_section", "sections too wide", *call(positions=ROWS), **S),
    bad(OP, "rotary_mode", "interleaved", *A, rotary_mode="interleaved"),
    bad(OP, "cache_mode", "another", *A, cache_mode="half"),
    bad(
        OP,
        "cache_mode",
        "four among one another",
        *call(head=128, width=128, positions=FOUR),
        mrope_section=[16, 16, 16, 16],
        cache_mode="interleave",
    ),
]
WRONG_VALUES = [bad(OP, "positions[1]", "behind the cache", *call(positions=at(0, 5, 1)))]


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    tokens = draw(SIZES)
    query = tensor(draw, (tokens, 64), *FLOATS)
    args = tensor(draw, (tokens, 32), query.dtype), tensor(draw, (5, 32), query.dtype), mostly(draw, 32, st.just(16))
    positions = torch.zeros(tokens, dtype=torch.int64).expand(*draw(st.sampled_from([(tokens,), (3, tokens)])))
    sections = draw(st.sampled_from([None, [0, 0, 0], [16, 24, 24]]))
    return (positions, query, *args), {"mrope_section": sections}


CALLS = {f"npu_{OP}": calls()}


def expected(positions: Any, query: Any, key: Any, cache: Any, head: int, **options: Any) -> list[Any]:
    """Pair by pair, in float32."""
    table, half = floats(cache), cache.size(1) // 2
    sections, row_of = options["mrope_section"], np.zeros(half, np.int64)
    if sections and options["cache_mode"] == "interleave":
        row_of = np.array([pair % 3 if pair < sections[1] * 3 else 0 for pair in range(half)])
    elif sections:
        row_of = np.repeat(np.arange(len(sections)), sections)
    rows = positions.reshape(-1, query.size(0)).numpy()
    results = []
    for x in (query, key):
        wide = floats(x).reshape(x.size(0), -1, head).copy()
        out = wide.copy()
        for token in range(x.size(0)):
            for pair in range(half):
                where = rows[row_of[pair], token]
                cos, sin = table[where, pair], table[where, half + pair]
                one, two = (pair, pair + half) if options["rotary_mode"] == "half" else (2 * pair, 2 * pair + 1)
                a, b = wide[token, :, one], wide[token, :, two]
                out[token, :, one], out[token, :, two] = a * cos - b * sin, b * cos + a * sin
        results.append(torch.from_numpy(out.reshape(x.shape)).to(x.dtype))
    return results


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    sections = draw(st.sampled_from([None, [8, 12, 12], [11, 11, 10]]))
    positions_of_row = st.lists(st.integers(0, 4), min_size=3, max_size=3)
    positions = at(*draw(positions_of_row)) if sections is None else at(*[draw(positions_of_row) for _ in range(3)])
    make, head = draw(st.sampled_from([f16, bf16, f32])), draw(st.sampled_from([64, 96]))
    options = {
        "mrope_section": sections,
        "rotary_mode": draw(st.sampled_from(["half", "interleave"])),
        "cache_mode": draw(st.sampled_from(["default", "interleave"])),
    }
    return call(make, head, 64, positions), options


STATEMENTS = {f"npu_{OP}": Statement(expected, with_data())}
GOLDEN = {
    f"{OP}-sections": (lambda *args: torch_npu.npu_mrope(*args, 128, mrope_section=[16, 24, 24]), THREE[:4]),
}

"""Calls of npu_recurrent_gated_delta_rule, its functional form and npu_chunk_gated_delta_rule."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import Draw
from support.call_table import Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, ends, f16, f32, i32

NAMES = ("recurrent_gated_delta_rule", "recurrent_gated_delta_rule_functional")
CHUNK, SAMPLE = "chunk_gated_delta_rule", 10
TOKENS, KEYS, HEADS, WIDTH, CHANNELS = 5, 2, 4, 8, 16


def rows(keys: int = KEYS, heads: int = HEADS) -> tuple[Any, ...]:
    """Normalised queries and keys, and values."""
    units = [torch.nn.functional.normalize(f32(TOKENS, keys, CHANNELS), dim=-1).bfloat16() for _ in range(2)]
    return *units, bf16(TOKENS, heads, WIDTH)


def gates(heads: int = HEADS) -> dict[str, Any]:
    return {"beta": f32(TOKENS, heads).sigmoid().bfloat16(), "g": -f32(TOKENS, heads).sigmoid(), "scale": 0.25}


def recurrent(states: int = 7) -> tuple[tuple[Any, ...], dict[str, Any]]:
    lengths = {"actual_seq_lengths": ends(3, 2), "ssm_state_indices": ends(6, 0, 3, 5, 1)}
    return (*rows(), bf16(states, HEADS, WIDTH, CHANNELS)), {**gates(), **lengths}


def chunk() -> tuple[tuple[Any, ...], dict[str, Any]]:
    state = {"initial_state": bf16(2, HEADS, WIDTH, CHANNELS), "actual_seq_lengths": ends(4, 1)}
    return rows(), {**gates(), **state}


A, N = recurrent()
C, M = chunk()
GK = {"gk": -f32(TOKENS, HEADS, CHANNELS).sigmoid()}
GOOD = [
    good(NAMES[0], "states of each token", *A, **N),
    good(NAMES[1], "accepted tokens", *A, **{**N, **GK, "g": None}, num_accepted_tokens=ends(2, 1)),
    good(CHUNK, "prompts", *C, **M),
]


def other(of: tuple[Any, ...], index: int, value: Any) -> tuple[Any, ...]:
    return *of[:index], value, *of[index + 1 :]


WRONG = [
    *(
        bad(NAMES[0], argument, label, *args, **{**N, **options})
        for argument, label, args, options in (
            ("query", "float16", other(A, 0, f16(5, 2, 16)), {}),
            ("query", "four dimensions", other(A, 0, bf16(1, 5, 2, 16)), {}),
            ("key.size(2)", "narrow keys", other(A, 1, bf16(5, 2, 8)), {}),
            ("value.size(0)", "fewer values", other(A, 2, bf16(4, 4, 8)), {}),
            ("value.size(1)", "three heads", other(A, 2, bf16(5, 3, 8)), {}),
            ("value.size(2)", "too wide", other(A, 2, bf16(5, 4, 513)), {}),
            ("state", "float32", other(A, 3, f32(7, 4, 8, 16)), {}),
            ("state.size(3)", "the other way round", other(A, 3, bf16(7, 4, 16, 8).mT[..., :8]), {}),
            ("state.size(0)", "fewer states than tokens", other(A, 3, bf16(4, 4, 8, 16)), {}),
            ("beta", "none", A, {"beta": None}),
            ("scale", "none", A, {"scale": None}),
            ("ssm_state_indices", "none", A, {"ssm_state_indices": None}),
            ("beta", "float32", A, {"beta": f32(5, 4)}),
            ("g.size(1)", "decay of keys", A, {"g": f32(5, 2)}),
            ("gk", "bfloat16", A, {"gk": bf16(5, 4, 16)}),
            ("actual_seq_lengths", "int64", A, {"actual_seq_lengths": ends(3, 2).long()}),
            ("ssm_state_indices.size(0)", "one for each sequence", A, {"ssm_state_indices": ends(1, 2)}),
            ("num_accepted_tokens.size(0)", "one for each token", A, {"num_accepted_tokens": i32(5)}),
        )
    ),
    *(
        bad(CHUNK, argument, label, *args, **{**M, **options})
        for argument, label, args, options in (
            ("query", "float32", other(C, 0, f32(5, 2, 16)), {}),
            ("query.size(2)", "too wide", (bf16(5, 2, 129), bf16(5, 2, 129), C[2]), {}),
            ("initial_state", "none", C, {"initial_state": None}),
            ("initial_state", "float32", C, {"initial_state": f32(2, 4, 8, 16)}),
            ("initial_state.size(0)", "one state", C, {"initial_state": bf16(1, 4, 8, 16)}),
            ("actual_seq_lengths", "none", C, {"actual_seq_lengths": None}),
            ("scale", "none", C, {"scale": None}),
            ("g", "bfloat16", C, {"g": bf16(5, 4)}),
        )
    ),
]
WRONG_VALUES = [
    bad(NAMES[0], "actual_seq_lengths", "fewer than the tokens", *A, **{**N, "actual_seq_lengths": ends(3, 1)}),
    bad(NAMES[0], "actual_seq_lengths[1]", "nothing", *A, **{**N, "actual_seq_lengths": ends(5, 0)}),
    bad(NAMES[0], "ssm_state_indices[2]", "no state", *A, **{**N, "ssm_state_indices": ends(6, 0, 7, 5, 1)}),
    bad(NAMES[0], "num_accepted_tokens[1]", "more than there are", *A, **N, num_accepted_tokens=ends(1, 3)),
    bad(CHUNK, "actual_seq_lengths", "more than the tokens", *C, **{**M, "actual_seq_lengths": ends(4, 2)}),
]


def stepped(args: tuple[Any, ...], options: dict[str, Any], first: Any, keep: Any) -> Any:
    """Sequence by sequence, token by token, head by head, in float64."""
    query, key, value = (floats(tensor).astype(np.float64) for tensor in args[:3])
    heads = value.shape[1]
    share, out, start = heads // key.shape[1], np.zeros(value.shape), 0
    for sequence, length in enumerate(options["actual_seq_lengths"].tolist()):
        state = first(sequence, start)
        for token in range(start, start + length):
            for head in range(heads):
                k, q = key[token, head // share], query[token, head // share] * options["scale"]
                if options.get("g") is not None:
                    state[head] *= np.exp(float(options["g"][token, head]))
                if options.get("gk") is not None:
                    state[head] *= np.exp(floats(options["gk"])[token, head].astype(np.float64))
                learnt = float(options["beta"][token, head]) * (value[token, head] - state[head] @ k)
                state[head] += np.outer(learnt, k)
                out[token, head] = state[head] @ q
            keep(sequence, token, state)
        start += length
    return out.astype(np.float32)


def expected_recurrent(*args: Any, **options: Any) -> list[Any]:
    states = floats(args[3]).astype(np.float64)
    kept, state_indices = states.copy(), options["ssm_state_indices"].tolist()
    accepted = options.get("num_accepted_tokens")

    def first(sequence: int, start: int) -> Any:
        return states[state_indices[start + (1 if accepted is None else int(accepted[sequence])) - 1]].copy()

    def keep(_: int, token: int, state: Any) -> None:
        kept[state_indices[token]] = state

    return [stepped(args, options, first, keep), kept.astype(np.float32)]


def expected_chunk(*args: Any, **options: Any) -> list[Any]:
    last = floats(options["initial_state"]).astype(np.float64)

    def keep(sequence: int, _: int, state: Any) -> None:
        last[sequence] = state

    out = stepped(args, options, lambda sequence, _: last[sequence].copy(), keep)
    return [out, last.astype(np.float32)]


@st.composite
def calls(draw: Draw, is_chunk: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, options = chunk() if is_chunk else recurrent()
    first = draw(st.integers(1, TOKENS - 1))
    options["actual_seq_lengths"] = ends(first, TOKENS - first)
    options["g"] = draw(st.sampled_from([None, options["g"]]))
    if not is_chunk:
        options["gk"] = draw(st.sampled_from([None, GK["gk"]]))
        options["ssm_state_indices"] = ends(*draw(st.permutations(range(7)))[:TOKENS])
        accepted = ends(draw(st.integers(1, first)), draw(st.integers(1, TOKENS - first)))
        options["num_accepted_tokens"] = draw(st.sampled_from([None, accepted]))
    return args, options


# Results and states are rounded to bfloat16 once, half a unit of eight bits of the largest, from float32.
STATEMENTS = {
    f"npu_{NAMES[1]}": Statement(expected_recurrent, calls(False), 2.0**-8, SAMPLE),
    f"npu_{CHUNK}": Statement(expected_chunk, calls(True), 2.0**-8, SAMPLE),
}


def golden(query: Any, key: Any, value: Any, state: Any, *others: torch.Tensor) -> Any:
    beta, g, lengths, state_indices, initial_state = others
    shared = {"beta": beta, "g": g, "actual_seq_lengths": lengths, "scale": 0.25}
    recurrent_results = torch_npu.npu_recurrent_gated_delta_rule_functional(
        query, key, value, state, ssm_state_indices=state_indices, **shared
    )
    return *recurrent_results, *torch_npu.npu_chunk_gated_delta_rule(
        query, key, value, initial_state=initial_state, **shared
    )


GATES = N["beta"], N["g"], N["actual_seq_lengths"], N["ssm_state_indices"]
GOLDEN = {"gated_delta_rule": (golden, (*A, *GATES, M["initial_state"]))}

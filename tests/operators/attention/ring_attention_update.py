"""Calls of npu_ring_attention_update."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw, mostly, tensor
from support.call_table import Statement, bad
from support.tensors import bf16, ends, f16, f32, f64, nz

OP = "ring_attention_update"


def eight(*shape: int) -> torch.Tensor:
    """Positive values, stored eight times each."""
    return (f32(*shape).abs() + 0.25).unsqueeze(-1).repeat_interleave(8, -1)


def sequences(make: Any = f16) -> list[torch.Tensor]:
    """Three rows of two sequences, of two heads of five channels."""
    return [make(3, 2, 10), eight(2, 2, 3), eight(2, 2, 3)] * 2


def tokens(make: Any = f16, count: int = 5, heads: int = 2, channels: int = 64) -> list[torch.Tensor]:
    return [make(count, heads, channels), eight(count, heads), eight(count, heads)] * 2


def swapped(tensors: list[torch.Tensor], index: int, other: torch.Tensor) -> list[torch.Tensor]:
    return [other if at == index else tensor for at, tensor in enumerate(tensors)]


ENDS = ends(0, 2, 5, dtype=torch.int64)
TND = {"actual_seq_qlen": ENDS, "input_layout": "TND"}
S, T = sequences(), tokens()
# Upstream lowers it nowhere, so that it runs eagerly alone: allowed calls are those that are generated below.
WRONG = [
    bad(OP, "input_layout", "another layout", *S, input_layout="BSH"),
    bad(OP, "input_softmax_layout", "another layout of sums", *S, input_softmax_layout="BNS"),
    bad(OP, "prev_attn_out", "float64", *swapped(S, 0, f64(3, 2, 10))),
    bad(OP, "prev_attn_out", "four dimensions", *swapped(S, 0, f16(3, 2, 2, 5))),
    bad(OP, "prev_attn_out.size(0)", "no row", *swapped(S, 0, f16(0, 2, 10))),
    bad(OP, "prev_attn_out.size(2)", "part of a head", *[f16(3, 2, 9) if at % 3 == 0 else S[at] for at in range(6)]),
    bad(OP, "cur_attn_out", "two dtypes", *swapped(S, 3, f32(3, 2, 10))),
    bad(OP, "cur_attn_out.size(0)", "two lengths", *swapped(S, 3, f16(2, 2, 10))),
    bad(OP, "prev_softmax_max", "float16 maxima", *swapped(S, 1, S[1].half())),
    bad(OP, "prev_softmax_max", "three dimensions", *swapped(S, 1, S[1][0])),
    bad(OP, "prev_softmax_max.size(-1)", "once each", *swapped(S, 1, S[1][..., :1])),
    bad(OP, "prev_softmax_max.size(0)", "maxima of one sequence", *[S[at][:1] if at % 3 else S[at] for at in range(6)]),
    bad(OP, "cur_softmax_sum.size(2)", "fewer sums", *swapped(S, 5, S[5][:, :, :2])),
    bad(OP, "actual_seq_qlen", "no ends", *T, input_layout="TND"),
    bad(OP, "actual_seq_qlen", "int32 ends", *T, actual_seq_qlen=ENDS.int(), input_layout="TND"),
    bad(OP, "actual_seq_qlen.size(0)", "one end", *T, actual_seq_qlen=ENDS[:1], input_layout="TND"),
    bad(OP, "prev_attn_out.size(2)", "48 channels", *tokens(channels=48), **TND),
    bad(OP, "prev_attn_out.size(2)", "832 channels", *tokens(channels=832), **TND),
    bad(OP, "prev_attn_out.size(1)", "257 heads", *tokens(heads=257), **TND),
]
WRONG_FORMATS = [
    bad(OP, "cur_attn_out", "in FRACTAL_NZ", *swapped(S, 3, nz(S[3]))),
    bad(OP, "cur_softmax_sum", "sums in FRACTAL_NZ", *swapped(S, 5, nz(S[5]))),
]
WRONG_VALUES = [
    bad(OP, "prev_softmax_max", "eight numbers", *swapped(S, 1, S[1] + torch.arange(8.0))),
    bad(OP, "actual_seq_qlen", "not to the end", *T, actual_seq_qlen=ENDS[:2], input_layout="TND"),
    bad(OP, "actual_seq_qlen", "not from 0", *T, actual_seq_qlen=ENDS[1:], input_layout="TND"),
]


def expected(*tensors: torch.Tensor, **options: Any) -> list[Any]:
    """In float64, row by row and head by head."""
    prev, prev_max, prev_sum, cur, cur_max, cur_sum = [value.double().numpy() for value in tensors]
    largest = np.maximum(prev_max, cur_max)
    terms = prev_sum * np.exp(prev_max - largest), cur_sum * np.exp(cur_max - largest)
    total = terms[0] + terms[1]
    out = np.zeros_like(prev)
    for index in np.ndindex(prev.shape):
        if options.get("input_layout", "SBH") == "SBH":
            width = prev.shape[2] // prev_max.shape[1]
            at: tuple[int, ...] = (index[1], index[2] // width, index[0], 0)
        elif options.get("input_softmax_layout") == "TND":
            at = (index[0], index[1], 0)
        else:
            marks = options["actual_seq_qlen"].tolist()
            first = max(value for value in marks[:-1] if value <= index[0])
            length = next(value for value in marks if value > index[0]) - first
            flat_index = first * prev.shape[1] + index[1] * length + index[0] - first
            at = (*divmod(flat_index, prev.shape[1]), 0)
        out[index] = (prev[index] * terms[0][at] + cur[index] * terms[1][at]) / total[at]
    return [out.astype(np.float32), largest.astype(np.float32), total.astype(np.float32)]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    make = draw(st.sampled_from([f32, f16, bf16]))
    if draw(st.booleans()):
        return tuple(sequences(make)[at] if at != 3 else make(3, 2, 10) for at in range(6)), {}
    layout = draw(st.sampled_from(["", "SBH", "TND"]))
    return (*tokens(make)[:3], *tokens(make)[:3]), {**TND, "input_softmax_layout": layout}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    drawn = [tensor(draw, tuple(like.shape), like.dtype) for like in T]
    return tuple(drawn), {**TND, "input_layout": mostly(draw, "TND", st.sampled_from(["SBH", "BNS"]))}


CALLS = {f"npu_{OP}": calls()}
# One rounding to bfloat16, and in float32 a few.
STATEMENTS = {f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-8, sample=20)}

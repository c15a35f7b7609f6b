"""Calls of npu_moe_re_routing."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import SIZES, Draw, mostly, optional, tensor
from support.call_table import Case, Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, i8

OP = "moe_re_routing"
COUNTS = torch.tensor([[2, 0, 1], [1, 3, 0]])
GOOD = [
    good(OP, "int8 with scales", i8(7, 16), COUNTS, per_token_scales=f32(7)),
    good(OP, "bfloat16", bf16(7, 16), COUNTS.int()),
    good(OP, "float16, one rank", f16(4, 5), torch.tensor([[1, 0, 3]]), per_token_scales=f32(4)),
    good(OP, "one token", bf16(1, 16), torch.tensor([[0, 0], [0, 1]])),
    good(OP, "no token", bf16(0, 16), torch.tensor([[0, 0], [0, 0]]), per_token_scales=f32(0)),
    good(OP, "transposed tokens", f16(16, 7).t(), COUNTS),
]
WRONG = [
    bad(OP, "tokens", "tokens float32", f32(7, 16), COUNTS),
    bad(OP, "tokens", "tokens of one dimension", f16(7), COUNTS),
    bad(OP, "tokens.size(1)", "no column", f16(7, 0), COUNTS),
    bad(OP, "tokens.size(1)", "too wide", f16(7, 16385), COUNTS),
    bad(OP, "expert_token_num_per_rank", "counts float32", f16(7, 16), COUNTS.float()),
    bad(OP, "expert_token_num_per_rank", "counts of one dimension", f16(7, 16), COUNTS[0]),
    bad(OP, "expert_token_num_per_rank", "no rank", f16(0, 16), COUNTS[:0]),
    bad(OP, "per_token_scales", "scales float16", f16(7, 16), COUNTS, per_token_scales=f16(7)),
    bad(OP, "per_token_scales", "scales of two dimensions", f16(7, 16), COUNTS, per_token_scales=f32(7, 1)),
    bad(OP, "per_token_scales.size(0)", "scales short", f16(7, 16), COUNTS, per_token_scales=f32(6)),
    bad(OP, "expert_token_num_type", "running sum", f16(7, 16), COUNTS, expert_token_num_type=0),
    bad(OP, "idx_type", "scatter index", f16(7, 16), COUNTS, idx_type=1),
    bad(OP, "tokens_dtype", "tokens_dtype of Ascend 950", i8(7, 16), COUNTS, tokens_dtype=1),
]
GOOD_950 = [good(OP, "wide", f16(7, 16385), COUNTS)]
WRONG_VALUES = [
    bad(OP, "expert_token_num_per_rank[0][1]", "negative", f16(7, 16), torch.tensor([[4, -1], [2, 2]])),
    bad(OP, "sum of expert_token_num_per_rank", "too few", f16(7, 16), torch.tensor([[4, 1], [1, 0]])),
]


def golden() -> Case:
    def call(tokens: torch.Tensor, counts: torch.Tensor, scales: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch_npu.npu_moe_re_routing(tokens, counts, per_token_scales=scales)

    return call, (i8(7, 16), COUNTS, f32(7))


GOLDEN = {"moe_re_routing": golden()}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, width = draw(SIZES), draw(SIZES)
    counts = torch.tensor([[rows, 0, 0]] if draw(st.booleans()) else [[0, 0], [0, rows]])
    options = {
        "per_token_scales": optional(draw, (rows,), torch.float32),
        "expert_token_num_type": mostly(draw, 1, st.just(0)),
        "idx_type": mostly(draw, 0, st.just(1)),
    }
    return (tensor(draw, (rows, width), torch.float16, torch.bfloat16, torch.int8), counts), options


CALLS = {"npu_moe_re_routing": calls()}


@st.composite
def right_calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    ranks, experts = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    counts = torch.tensor(draw(st.lists(st.integers(0, 3), min_size=ranks * experts, max_size=ranks * experts)))
    counts = counts.reshape(ranks, experts).to(draw(st.sampled_from([torch.int32, torch.int64])))
    rows = int(counts.sum())
    tokens = torch.randn(rows, draw(st.integers(1, 9))) * 40
    tokens = tokens.to(draw(st.sampled_from([torch.float16, torch.bfloat16, torch.int8])))
    return (tokens, counts), {"per_token_scales": torch.randn(rows) if draw(st.booleans()) else None}


def statement(tokens: torch.Tensor, counts: torch.Tensor, per_token_scales: torch.Tensor | None = None) -> Any:
    """Piece by piece, expert after expert."""
    ranks, experts = counts.shape
    starts = np.concatenate([[0], np.cumsum(counts.numpy().reshape(-1))])
    source: list[int] = []
    for expert in range(experts):
        for rank in range(ranks):
            piece = rank * experts + expert
            source += range(int(starts[piece]), int(starts[piece + 1]))
    order = np.asarray(source, np.int64)
    values = floats(tokens) if tokens.is_floating_point() else tokens.numpy()
    scales = np.zeros(len(order), np.float32) if per_token_scales is None else per_token_scales.numpy()[order]
    return values[order], scales, order.astype(np.int32), counts.numpy().sum(0).astype(counts.numpy().dtype)


STATEMENTS = {"npu_moe_re_routing": Statement(statement, right_calls())}

"""Calls of npu_moe_init_routing."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import FLOATS, SIZES, Draw, tensor
from support.call_table import Case, Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, f64

OP = "moe_init_routing"
EXPERTS = torch.tensor([[3, 0], [1, 3], [0, 7], [3, 2]], dtype=torch.int32)


def numbers(tokens: int, k: int) -> torch.Tensor:
    """As npu_moe_gating_top_k_softmax numbers the pairs."""
    return torch.arange(tokens * k, dtype=torch.int32).reshape(k, tokens).t().contiguous()


ROWS = numbers(4, 2)
GOOD = [
    good(OP, "all", f16(4, 16), ROWS, EXPERTS, 4),
    good(OP, "more active than there are", bf16(4, 5), ROWS, EXPERTS, 99),
    good(OP, "two active", f32(4, 16), ROWS, EXPERTS, 2),
    good(OP, "none active", f32(4, 16), ROWS, EXPERTS, 0),
    good(OP, "one token", f32(1, 16), numbers(1, 2), EXPERTS[:1], 1),
    good(OP, "transposed", f16(16, 4).t(), numbers(4, 2).t().contiguous().t(), EXPERTS, 4),
]
WRONG = [
    bad(OP, "x", "x float64", f64(4, 16), ROWS, EXPERTS, 4),
    bad(OP, "x", "x of one dimension", f16(4), ROWS, EXPERTS, 4),
    bad(OP, "x.size(0)", "no token", f16(0, 16), ROWS[:0], EXPERTS[:0], 4),
    bad(OP, "row_idx", "row_idx int64", f16(4, 16), ROWS.long(), EXPERTS, 4),
    bad(OP, "row_idx", "row_idx of one dimension", f16(4, 16), ROWS[0], EXPERTS, 4),
    bad(OP, "row_idx.size(0)", "row_idx short", f16(4, 16), ROWS[:3], EXPERTS, 4),
    bad(OP, "row_idx.size(1)", "row_idx of no expert", f16(4, 16), ROWS[:, :0], EXPERTS, 4),
    bad(OP, "expert_idx", "expert_idx int64", f16(4, 16), ROWS, EXPERTS.long(), 4),
    bad(OP, "expert_idx", "expert_idx of one dimension", f16(4, 16), ROWS, EXPERTS[0], 4),
    bad(OP, "expert_idx.size(0)", "expert_idx short", f16(4, 16), ROWS, EXPERTS[:3], 4),
    bad(OP, "expert_idx.size(1)", "expert_idx narrow", f16(4, 16), ROWS, EXPERTS[:, :1], 4),
    bad(OP, "active_num", "negative", f16(4, 16), ROWS, EXPERTS, -1),
    bad(
        OP,
        "number of pairs",
        "too many pairs",
        f16(1, 1),
        torch.zeros(1, 2**24, dtype=torch.int32),
        torch.zeros(1, 2**24, dtype=torch.int32),
        1,
    ),
]
WRONG_VALUES = [
    bad(OP, "row_idx[", "number beyond the pairs", f16(4, 16), ROWS + 1, EXPERTS, 4),
    bad(OP, "values of row_idx", "a number twice", f16(4, 16), ROWS // 2, EXPERTS, 4),
    bad(OP, "expert_idx[", "negative expert", f16(4, 16), ROWS, EXPERTS - 1, 4),
]


def golden() -> Case:
    def call(x: torch.Tensor, rows: torch.Tensor, experts: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch_npu.npu_moe_init_routing(x, rows, experts, 99)

    return call, (f16(4, 16), ROWS, EXPERTS)


GOLDEN = {"moe_init_routing": golden()}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    tokens, k = draw(SIZES), draw(st.sampled_from([1, 2, 0]))
    rows = numbers(tokens, k) if draw(st.booleans()) else tensor(draw, (tokens, k), torch.int32)
    x = tensor(draw, (tokens, draw(SIZES)), *FLOATS)
    return (x, rows, tensor(draw, (tokens, k), torch.int32), draw(st.sampled_from([-1, 0, 1, 99]))), {}


CALLS = {"npu_moe_init_routing": calls()}


@st.composite
def right_calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    tokens, k = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    x = torch.randn(tokens, draw(st.integers(1, 9)), generator=generator).to(draw(st.sampled_from(FLOATS)))
    rows = torch.randperm(tokens * k, generator=generator).to(torch.int32).reshape(tokens, k)
    experts = torch.randint(0, 5, (tokens, k), generator=generator, dtype=torch.int32)
    return (x, rows if draw(st.booleans()) else numbers(tokens, k), experts, draw(st.integers(0, 12))), {}


def statement(x: torch.Tensor, rows: torch.Tensor, experts: torch.Tensor, active: int) -> tuple[Any, ...]:
    tokens, k = rows.shape
    pairs = sorted(range(tokens * k), key=lambda pair: int(experts.reshape(-1)[pair]))
    source = [int(rows.reshape(-1)[pair]) for pair in pairs]
    row_idx = np.zeros(tokens * k, np.int32)
    row_idx[source] = np.arange(tokens * k)
    kept = [number % tokens for number in source[: min(active, tokens) * k]]
    return floats(x)[kept], row_idx, np.sort(experts.reshape(-1).numpy())


STATEMENTS = {"npu_moe_init_routing": Statement(statement, right_calls())}

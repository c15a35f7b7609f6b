"""Calls of npu_moe_compute_expert_tokens."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import SIZES, Draw, tensor
from support.call_table import Case, Statement, bad, good
from support.tensors import ends

OP = "moe_compute_expert_tokens"
SORTED = ends(0, 0, 1, 3, 3, 3, 4)
GOOD = [
    good(OP, "some without rows", SORTED, 6),
    good(OP, "values beyond the experts", SORTED, 3),
    good(OP, "one row", ends(2), 4),
]
WRONG = [
    bad(OP, "sorted_expert_for_source_row", "int64", SORTED.long(), 6),
    bad(OP, "sorted_expert_for_source_row", "two dimensions", SORTED[None], 6),
    bad(OP, "sorted_expert_for_source_row.size(0)", "no row", SORTED[:0], 6),
    bad(OP, "sorted_expert_for_source_row.size(0)", "too many rows", torch.zeros(2**24, dtype=torch.int32), 6),
    bad(OP, "num_expert", "no expert", SORTED, 0),
    bad(OP, "num_expert", "too many experts", SORTED, 2049),
]
WRONG_VALUES = [
    bad(OP, "sorted_expert_for_source_row[2]", "falling", ends(0, 3, 1), 4),
    bad(OP, "sorted_expert_for_source_row[0]", "negative", ends(-1, 3), 4),
]


def golden() -> Case:
    def call(rows: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_moe_compute_expert_tokens(rows, 6)

    return call, (SORTED,)


GOLDEN = {"moe_compute_expert_tokens": golden()}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (tensor(draw, (draw(SIZES),), torch.int32), draw(st.sampled_from([0, 1, 2048, 2049]))), {}


CALLS = {"npu_moe_compute_expert_tokens": calls()}
RIGHT = st.tuples(
    st.tuples(
        st.lists(st.integers(0, 9), min_size=1, max_size=20).map(lambda rows: ends(*sorted(rows))), st.integers(1, 10)
    ),
    st.just({}),
)


def statement(rows: torch.Tensor, experts: int) -> Any:
    return np.asarray([sum(row <= expert for row in rows.tolist()) for expert in range(experts)], np.int32)


STATEMENTS = {"npu_moe_compute_expert_tokens": Statement(statement, RIGHT)}

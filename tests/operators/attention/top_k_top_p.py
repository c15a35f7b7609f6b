"""Calls of npu_top_k_top_p."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import Draw, mostly
from support.call_table import Call, Statement, bad
from support.tensors import bf16, ends, f16, f32, f64

NAME = "top_k_top_p"
K = ends(3, 1)
# GE registers no such node, so that it runs eagerly alone: allowed calls are those that are generated below.
WRONG: list[Call] = [
    bad(NAME, "logits", "float64", f64(2, 9), None, K),
    bad(NAME, "logits", "one dimension", f32(9), None, K),
    bad(NAME, "p or k", "neither", f32(2, 9), None, None),
    bad(NAME, "p", "another dtype", f32(2, 9), f16(2), K),
    bad(NAME, "p", "two dimensions", f32(2, 9), f32(2, 1), K),
    bad(NAME, "k", "int64", f32(2, 9), None, K.long()),
    bad(NAME, "k.size(0)", "a row too few", f32(2, 9), None, ends(3)),
]
WRONG_VALUES: list[Call] = [
    bad(NAME, "k[1]", "none kept", f32(2, 9), None, ends(3, 0)),
    bad(NAME, "k[0]", "more than there are", f32(2, 9), None, ends(10, 1)),
    bad(NAME, "p[0]", "no probability", f32(2, 9), torch.tensor([1.5, 0.5]), K),
]


def expected(logits: torch.Tensor, p: torch.Tensor | None, k: torch.Tensor | None) -> Any:
    out = logits.float().numpy().copy()
    for row in range(out.shape[0]):
        order = np.argsort(out[row], kind="stable")
        values = out[row][order]
        if k is not None:
            values[values < values[len(values) - int(k[row])]] = -np.inf
        if p is not None:
            exponentials = np.exp(values.astype(np.float64) - values.max())
            below = np.cumsum(exponentials / exponentials.sum()) <= 1.0 - float(p[row])
            below[-1] = False
            values[below] = -np.inf
        out[row][order] = values
    return out


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, width = draw(st.sampled_from([1, 3])), draw(st.sampled_from([1, 7, 40]))
    kind = draw(st.sampled_from([f32, f16, bf16]))
    k = torch.tensor([draw(st.integers(1, width)) for _ in range(rows)], dtype=torch.int32)
    p = torch.tensor([draw(st.sampled_from([0.0, 0.3, 0.77, 1.0])) for _ in range(rows)]).to(kind(1).dtype)
    which = mostly(draw, "both", st.sampled_from(["p", "k"]))
    return (kind(rows, width), None if which == "k" else p, None if which == "p" else k), {}


STATEMENTS = {f"npu_{NAME}": Statement(expected, calls())}
CALLS = {f"npu_{NAME}": calls()}

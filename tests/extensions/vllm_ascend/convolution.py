"""Calls of npu_causal_conv1d_custom."""

from typing import Any

import numpy as np
import torch

from support.arrays import rounded
from support.extension_calls import Case, Wrong
from support.numpy_rules import floats
from support.tensors import bf16, ends, f16

OP = "_C_ascend::npu_causal_conv1d_custom"
NONE = None


def expected(
    output: Any,
    x: Any,
    weight: Any,
    state: Any,
    bias: Any,
    starts: Any,
    lines: Any,
    initial: Any,
    accepted: Any,
    activation: int,
    pad: int,
    mode: int,
) -> list[Any]:
    """State the rule token by token, from the tokens before each."""
    rows, out, lines_of_state = floats(x).reshape(-1, x.size(-1)), floats(output).copy(), floats(state).copy()
    out = out.reshape(rows.shape)
    width, length = weight.size(0), state.size(1)
    if x.dim() == 3:
        spans = [(i * x.size(1), (i + 1) * x.size(1)) for i in range(x.size(0))]
    elif starts is None or (mode and len(starts) == len(x) + 1):
        spans = [(i, i + 1) for i in range(len(x))]
    else:
        spans = list(zip(starts.tolist()[:-1], starts.tolist()[1:], strict=True))
    for index, (start, end) in enumerate(spans):
        line = index if lines is None else int(lines.reshape(len(lines), -1)[index, 0])
        if start == end or (lines is not None and line == pad) or not 0 <= line < len(state):
            continue
        skipped = 0 if accepted is None else min(max(int(accepted[index]) - 1, 0), length - width + 1)
        before = floats(state)[line, skipped : skipped + width - 1]
        if not mode and (initial is None or not initial[index]):
            before = before * 0
        seen = np.concatenate([before, rows[start:end]]).astype(np.float64)
        for token in range(end - start):
            total = (seen[token : token + width] * floats(weight)).sum(0) + (0 if bias is None else floats(bias))
            out[start + token] = total / (1 + np.exp(-total)) if activation else total
        new = seen[-(width - 1) :] if accepted is None or 2 + end - start > length else seen[width - 3 :]
        lines_of_state[line, : len(new)] = new
    return [rounded(out.reshape(x.shape).astype(np.float32), x.dtype)] * 2 + [lines_of_state]


def case(label: str, x: torch.Tensor, *others: Any, state: tuple[int, int] = (5, 3), width: int = 4) -> Case:
    make = bf16 if x.dtype == torch.bfloat16 else f16
    bias, *rest = others
    args = (make(*x.shape), x, make(width, 32), make(*state, 32), make(32) if bias else None, *rest)
    # The order of the sum and of the exponential's rounding is not compared.
    return Case(OP, label, args, expected=expected, writes=("output", "conv_state"), bound=2.0**-8)


S, LINES = ends(0, 4, 4, 6), ends(3, 0, 4)
VALID = [
    case("prompts", bf16(6, 32), True, S, LINES, NONE, NONE, 1, -1, 0),
    case("prompts after others", bf16(6, 32), False, S, LINES, torch.tensor([True, True, False]), NONE, 1, -1, 0),
    case("batches", f16(3, 2, 32), True, NONE, NONE, ends(1, 0, 1), NONE, 0, -1, 0, width=3),
    case("a token each", bf16(3, 32), True, ends(0, 1, 2, 3), LINES, NONE, NONE, 1, -1, 1),
    case("a token each, padded", bf16(3, 32), False, NONE, ends(3, -1, 9), NONE, NONE, 0, -1, 1, state=(5, 4)),
    case("accepted tokens", bf16(6, 32), True, S, LINES, NONE, ends(2, 1, 3), 1, -1, 1, state=(5, 6)),
    case("accepted tokens, short state", bf16(6, 32), True, S, LINES, NONE, ends(2, 1, 9), 1, -1, 1, state=(5, 5)),
    case("speculated lines", bf16(6, 32), True, S, LINES[:, None].repeat(1, 3), NONE, NONE, 1, 3, 1, width=2),
]
X, W, C = bf16(6, 32), bf16(4, 32), bf16(5, 3, 32)
REST = (NONE, S, LINES, NONE, NONE, 0, -1, 0)
WRONG = [
    Wrong(OP, "weight must be torch.bfloat16, the dtype of x, got torch.float16", (X, X, W.half(), C, *REST)),
    Wrong(OP, "weight.size(0) must lie in [2, 4], got 5", (X, X, bf16(5, 32), bf16(5, 4, 32), *REST)),
    Wrong(OP, "x.size(-1) must be a multiple of 16, got 8", (X[:, :8].contiguous(),) * 2 + (W, C, *REST)),
    Wrong(OP, "query_start_loc_opt must be given", (X, X, W, C, NONE, NONE, LINES, NONE, NONE, 0, -1, 0)),
    Wrong(OP, "conv_state.size(1) must be at least 3, got 2", (X, X, W, bf16(5, 2, 32), *REST)),
    Wrong(OP, "num_accepted_tokens_opt is for run_mode 1", (X, X, W, C, NONE, S, LINES, NONE, LINES, 0, -1, 0)),
]

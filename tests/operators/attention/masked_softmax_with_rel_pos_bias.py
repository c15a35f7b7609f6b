"""Calls of npu_masked_softmax_with_rel_pos_bias."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw, tensor
from support.call_table import Call, Statement, bad, good, overload
from support.tensors import bf16, f16, f32, f64

OP = "masked_softmax_with_rel_pos_bias"
X, MASK, BIAS = f16(2, 3, 2, 4, 5), f16(3, 4, 5), f16(2, 4, 5)
GOOD: list[Call] = [
    good(OP, "masked", X, MASK, BIAS, 0.5),
    good(OP, "bare, windows within sequences", f32(6, 2, 4, 5), None, f32(1, 2, 4, 5)),
]
WRONG = [
    bad(OP, "x", "float64", f64(2, 3, 2, 4, 5), None, f64(2, 4, 5)),
    bad(OP, "x", "three dimensions", X[0, 0], None, BIAS),
    bad(OP, "x.size(0)", "no window", X[:0], None, BIAS),
    bad(OP, "relative_pos_bias", "another dtype", X, None, BIAS.float()),
    bad(OP, "relative_pos_bias", "two dimensions", X, None, BIAS[0]),
    bad(OP, "relative_pos_bias.size(0)", "a bias for windows", X, None, f16(3, 2, 4, 5)),
    bad(OP, "relative_pos_bias.size(0)", "other heads", X, None, f16(1, 4, 5)),
    bad(OP, "atten_mask", "a mask of another dtype", X, MASK.float(), BIAS),
    bad(OP, "atten_mask", "a mask of six dimensions", X, MASK[None, None, None], BIAS),
    bad(OP, "atten_mask.size(-1)", "a narrow mask", X, MASK[..., :4], BIAS),
    bad(OP, "atten_mask.size(-3)", "a mask for heads", X, f16(3, 2, 4, 5), BIAS),
    bad(OP, "atten_mask.size(0)", "a mask for sequences", X, f16(2, 3, 1, 4, 5), BIAS),
    bad(OP, "windows of atten_mask", "other windows", X, MASK[:2], BIAS),
    bad(OP, "x.size(0)", "part of a sequence", X.flatten(0, 1)[:4], MASK, BIAS),
    bad(OP, "x.size(-1)", "too wide", f16(1, 1, 1, 6144), f16(1, 1, 6144), f16(1, 1, 6144)),
]


def expected(x: torch.Tensor, mask: torch.Tensor | None, bias: torch.Tensor, scale: float = 1.0) -> Any:
    """In float64, window by window."""
    scores = x.double().numpy() * scale
    flat = scores.reshape(-1, *scores.shape[-3:])
    rows, columns = flat.shape[-2:]
    masks = np.zeros((1, rows, columns)) if mask is None else mask.double().numpy().reshape(-1, rows, columns)
    for index, window in enumerate(flat):
        window += masks[index % len(masks)] + bias.double().numpy().reshape(-1, rows, columns)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    make = draw(st.sampled_from([f32, f16, bf16]))
    x = make(*draw(st.sampled_from([(2, 3, 2, 4, 5), (6, 2, 4, 5), (3, 2, 4, 5)])))
    mask = draw(st.sampled_from([None, (3, 4, 5), (3, 1, 4, 5), (1, 3, 1, 4, 5)]))
    bias = make(*draw(st.sampled_from([(2, 4, 5), (1, 2, 4, 5), (1, 1, 2, 4, 5)])))
    return (x, None if mask is None else make(*mask), bias, draw(st.sampled_from([1.0, 0.125]))), {}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    drawn = [tensor(draw, tuple(like.shape), torch.float16) for like in (X, MASK, BIAS)]
    return tuple(drawn), {}


CALLS = {f"npu_{OP}": calls()}
# One rounding to bfloat16.
STATEMENTS = {f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-8)}
GOLDEN = {OP: (lambda x, mask, bias: overload(f"npu_{OP}")(x, mask, bias, 0.5), (X, MASK, BIAS))}

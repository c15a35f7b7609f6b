"""Calls of npu_fused_floyd_attention and of its gradient."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw
from support.call_table import Statement, bad
from support.tensors import bf16, f16, f32

OP, BACK = "fused_floyd_attention", "fused_floyd_attention_backward"
SCALE = 0.125


def call(make: Any = f16, **other: Any) -> tuple[Any, ...]:
    """One head of 16 rows of 128 columns, through 128 others, 32 channels."""
    arguments = {"query": make(1, 1, 16, 128, 32), "key": make(1, 1, 16, 128, 32), "value": make(1, 1, 16, 128, 32)}
    arguments |= {"far_key": make(1, 1, 128, 128, 32), "far_value": make(1, 1, 128, 128, 32)}
    return tuple((arguments | other).values())


def empty(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.float16)


def wrong(argument: str, label: str, mask: Any = None, **other: Any) -> Any:
    return bad(OP, argument, label, *call(**other), atten_mask=mask)


SHORT, NARROW, FAR = empty(1, 1, 8, 128, 32), empty(1, 1, 16, 64, 32), empty(1, 1, 64, 128, 32)
MOMENT = f32(1, 1, 16, 128, 8)
# Upstream lowers neither, so that they run eagerly alone: allowed calls are those that are generated below.
WRONG = [
    wrong("query_ik", "float32", make=f32),
    wrong("query_ik", "four dimensions", query=f16(1, 16, 128, 32)),
    wrong("query_ik.size(4)", "16 channels", query=f16(1, 1, 16, 128, 16)),
    wrong("query_ik.size(2)", "8 rows", query=SHORT, key=SHORT, value=SHORT),
    wrong("query_ik.size(3)", "64 columns", query=NARROW, far_key=FAR.transpose(2, 3), far_value=FAR.transpose(2, 3)),
    wrong("key_ij.size(3)", "64 between", key=NARROW, value=NARROW, far_key=FAR, far_value=FAR),
    wrong("value_ij", "another dtype", value=bf16(1, 1, 16, 128, 32)),
    wrong("key_jk.size(2)", "others far away", far_key=empty(1, 1, 256, 128, 32)),
    wrong("atten_mask", "numbers", mask=f16(1, 1, 16, 1, 128)),
    wrong("atten_mask.size(3)", "a mask of columns", mask=torch.zeros(1, 1, 16, 128, 128, dtype=torch.bool)),
    bad(BACK, "grad_output.size(3)", "fewer gradients", empty(1, 1, 16, 64, 32), *call(), call()[0], MOMENT, MOMENT),
    bad(BACK, "softmax_sum.size(4)", "once each", call()[0], *call(), call()[0], MOMENT, MOMENT[..., :1]),
]
WRONG_VALUES = [wrong("atten_mask", "all hidden", mask=torch.ones(1, 1, 16, 1, 128, dtype=torch.bool))]


def weighed(query: Any, key: Any, far_key: Any, mask: Any) -> tuple[Any, ...]:
    """In float64: weights, maxima and sums, (i, k, j) of one head."""
    scores = (np.einsum("ikc,ijc->ikj", query, key) + np.einsum("ikc,jkc->ikj", query, far_key)) * SCALE
    if mask is not None:
        scores = np.where(mask.numpy()[0, 0].astype(bool), -np.inf, scores)
    largest = scores.max(-1, keepdims=True)
    exponentials = np.exp(scores - largest)
    total = exponentials.sum(-1, keepdims=True)
    return exponentials / total, largest, total


def numbers(*tensors: torch.Tensor) -> list[Any]:
    return [tensor.double().numpy()[0, 0] for tensor in tensors]


def expected(*args: Any, atten_mask: Any, **_: Any) -> list[Any]:
    query, key, value, far_key, far_value = numbers(*args)
    weights, largest, total = weighed(query, key, far_key, atten_mask)
    out = np.einsum("ikj,ijc->ikc", weights, value) + np.einsum("ikj,jkc->ikc", weights, far_value)
    return [np.repeat(largest, 8, -1)[None, None], np.repeat(total, 8, -1)[None, None], out[None, None]]


def expected_gradient(grad: Any, *args: Any, atten_mask: Any, **_: Any) -> list[Any]:
    up, query, key, value, far_key, far_value, out = numbers(grad, *args[:6])
    weights, _, _ = weighed(query, key, far_key, atten_mask)
    grad_weights = np.einsum("ikc,ijc->ikj", up, value) + np.einsum("ikc,jkc->ikj", up, far_value)
    slopes = weights * (grad_weights - (up * out).sum(-1, keepdims=True)) * SCALE
    gradients = [
        np.einsum("ikj,ijc->ikc", slopes, key) + np.einsum("ikj,jkc->ikc", slopes, far_key),
        np.einsum("ikj,ikc->ijc", slopes, query),
        np.einsum("ikj,ikc->ijc", weights, up),
        np.einsum("ikj,ikc->jkc", slopes, query),
        np.einsum("ikj,ikc->jkc", weights, up),
    ]
    return [gradient[None, None] for gradient in gradients]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    mask = torch.randint(2, (1, 1, 16, 1, 128), dtype=torch.uint8)
    mask[..., 0] = 0
    chosen = draw(st.sampled_from([None, mask, mask.bool()]))
    args = call(draw(st.sampled_from([f16, bf16])))
    return tuple(tensor / 4 for tensor in args), {"atten_mask": chosen, "scale_value": SCALE}


@st.composite
def gradients(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, named = draw(with_data())
    largest, total, out = (torch.from_numpy(array) for array in expected(*args, **named))
    upstream = f32(*out.shape).to(args[0].dtype)
    return (upstream, *args, out.to(args[0].dtype), largest.float(), total.float()), named


# Weights and slopes are rounded to bfloat16, and results are; what attention gave is, too.
STATEMENTS = {
    f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-7, sample=2),
    f"npu_{BACK}": Statement(expected_gradient, gradients(), bound=2.0**-6, sample=2),
}

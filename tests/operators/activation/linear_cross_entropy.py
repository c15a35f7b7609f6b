"""Calls of the vocabulary-parallel cross-entropy loss and its gradient."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import Draw, mostly, tensor
from support.call_table import Statement, bad
from support.numpy_rules import floats
from support.tensors import bf16, ends, f16, f32, i32

SUM, LOSS, BACK = (
    "fused_linear_online_max_sum",
    "fused_cross_entropy_loss_with_max_sum",
    "fused_linear_cross_entropy_loss_with_max_sum_backward",
)
X, W, TARGET = f16(3, 16), f16(8, 16), ends(0, 9, 4)
ROWS = (f32(3), f32(3).abs() + 1, f32(3))
GRADIENT = (f32(3), f16(3, 16), f16(128, 16), ends(0, dtype=torch.uint8), ends(0, 9, 4))
KEPT = {"logits_max": ROWS[0], "sum_exp_logits": ROWS[1]}
# Upstream has no lowering, so they only run eagerly: the allowed calls are generated below.
WRONG = [
    bad(SUM, "input", "float32", X.float(), W.float(), TARGET, 0, 8),
    bad(SUM, "input", "three dimensions", X[None], W, TARGET, 0, 8),
    bad(SUM, "weight", "another dtype", X, W.bfloat16(), TARGET, 0, 8),
    bad(SUM, "weight", "three dimensions", X, W[None], TARGET, 0, 8),
    bad(SUM, "weight.size(1)", "another width", X, W[:, :15], TARGET, 0, 8),
    bad(SUM, "weight.size(0)", "no tokens", X, W[:0], TARGET, 0, 0),
    bad(SUM, "input.size(1)", "too wide", f16(1, 65535), f16(1, 65535), TARGET[:1], 0, 1),
    bad(SUM, "target", "int16", X, W, TARGET.short(), 0, 8),
    bad(SUM, "target", "two dimensions", X, W, TARGET[None], 0, 8),
    bad(SUM, "target.size(0)", "fewer", X, W, TARGET[:2], 0, 8),
    bad(SUM, "vocab_start_index", "negative", X, W, TARGET, -1, 8),
    bad(SUM, "vocab_end_index", "before the start", X, W, TARGET, 4, 3),
    bad(SUM, "vocab_end_index", "more than there are weights", X, W, TARGET, 0, 9),
    bad(LOSS, "logits_max", "float16", ROWS[0].half(), *ROWS[1:]),
    bad(LOSS, "logits_max", "two dimensions", ROWS[0][None], *ROWS[1:]),
    bad(LOSS, "sum_exp_logits.size(0)", "fewer", ROWS[0], ROWS[1][:2], ROWS[2]),
    bad(LOSS, "predicted_logits", "two dimensions", *ROWS[:2], ROWS[2][None]),
    bad(LOSS, "label_smoothing", "reserved", *ROWS, label_smoothing=0.1),
    bad(LOSS, "input", "reserved", *ROWS, input=X),
    bad(LOSS, "weight", "reserved", *ROWS, weight=W),
    bad(LOSS, "vocab_parallel_logits", "integers", *ROWS, vocab_parallel_logits=i32(3, 8)),
    bad(LOSS, "vocab_parallel_logits", "one dimension", *ROWS, vocab_parallel_logits=f32(3)),
    bad(LOSS, "vocab_parallel_logits.size(0)", "fewer", *ROWS, vocab_parallel_logits=f32(2, 8)),
    bad(BACK, "weight.size(0)", "127 tokens", *GRADIENT[:2], f16(127, 16), *GRADIENT[3:], **KEPT),
    bad(BACK, "grad", "float16", GRADIENT[0].half(), *GRADIENT[1:], **KEPT),
    bad(BACK, "target_mask", "int8", *GRADIENT[:3], ends(0, dtype=torch.int8), GRADIENT[4], **KEPT),
    bad(BACK, "target_mask.size(0)", "too few bits", *GRADIENT[:3], ends(dtype=torch.uint8), GRADIENT[4], **KEPT),
    bad(BACK, "masked_target", "float32", *GRADIENT[:4], f32(3), **KEPT),
    bad(BACK, "masked_target.size(0)", "fewer", *GRADIENT[:4], ends(0, 9), **KEPT),
    bad(BACK, "label_smoothing", "reserved", *GRADIENT, 0.1, **KEPT),
    bad(BACK, "sum_exp_logits", "neither sums nor softmax", *GRADIENT, logits_max=ROWS[0]),
    bad(BACK, "logits_max.size(0)", "fewer", *GRADIENT, **KEPT | {"logits_max": f32(2)}),
    bad(BACK, "softmax", "float16", *GRADIENT, softmax=f16(3, 128)),
    bad(BACK, "softmax.size(1)", "fewer tokens", *GRADIENT, softmax=f32(3, 127)),
    bad(
        BACK,
        "softmax.size(1)",
        "more tokens than fit",
        *GRADIENT[:2],
        torch.zeros(24529, 16, dtype=torch.float16),
        *GRADIENT[3:],
        softmax=torch.zeros(3, 24529),
    ),
]
WRONG_VALUES = [
    bad(BACK, "masked_target[1]", "after the last token", *GRADIENT[:4], ends(0, 128, 4), **KEPT),
    bad(BACK, "masked_target[2]", "negative", *GRADIENT[:4], ends(0, 9, -1), **KEPT),
]


def rounded(values: Any, like: torch.Tensor) -> Any:
    return floats(torch.from_numpy(values).to(like.dtype)).astype(np.float64)


def expected_sums(
    x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, start: int, end: int, logits: bool
) -> list[Any]:
    """Row by row; the matmuls of the data are exact in float32 in any order."""
    products = rounded(floats(x).astype(np.float64) @ floats(weight).T.astype(np.float64), x)
    largest = products.max(1)
    count = len(largest)
    sums, predicted, masked = np.zeros(count), np.zeros(count), np.zeros(count, target.numpy().dtype)
    bits = [0] * (-(-count // 8) * 8)
    for row in range(len(bits)):
        token = int(target[row]) if row < count else 0
        bits[row] = int(not start <= token < end)
        if row < count:
            sums[row] = np.exp(products[row] - largest[row]).sum()
            masked[row] = 0 if bits[row] else token - start
            predicted[row] = 0 if bits[row] else products[row, masked[row]] - largest[row]
    mask = np.packbits(np.array(bits, np.uint8), bitorder="little")
    return [largest, sums, predicted, mask, masked, torch.from_numpy(products).to(x.dtype) if logits else None]


def expected_loss(largest: torch.Tensor, sums: torch.Tensor, predicted: torch.Tensor, **options: Any) -> list[Any]:
    logits = options["vocab_parallel_logits"]
    loss = np.log(sums.double().numpy()) - predicted.double().numpy()
    if logits is None:
        return [loss, None]
    exponents = np.exp(floats(logits).astype(np.float64) - largest.double().numpy()[:, None])
    return [loss, exponents / sums.double().numpy()[:, None]]


def expected_gradient(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mask: torch.Tensor, target: torch.Tensor, **options: Any
) -> list[Any]:
    inputs, weights = floats(x).astype(np.float64), floats(weight).astype(np.float64)
    if options["softmax"] is None:
        shifted = inputs @ weights.T - options["logits_max"].double().numpy()[:, None]
        shares = np.exp(shifted) / options["sum_exp_logits"].double().numpy()[:, None]
    else:
        shares = options["softmax"].double().numpy().copy()
    bits = np.unpackbits(mask.numpy(), bitorder="little")
    for row, token in enumerate(target.tolist()):
        if not bits[row]:
            shares[row, token] -= 1
    of_logits = rounded(shares * grad.double().numpy()[:, None], x)
    return [of_logits @ weights, of_logits.T @ inputs]


def eighths(*shape: int) -> torch.Tensor:
    return torch.randint(-8, 9, shape) / 8


@st.composite
def sums_with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, width, tokens = draw(st.integers(1, 20)), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    dtype, start = draw(st.sampled_from([torch.float16, torch.bfloat16])), draw(st.integers(0, 5))
    end = start + draw(st.integers(0, tokens))
    target = torch.randint(0, start + tokens + 3, (rows,), dtype=draw(st.sampled_from([torch.int32, torch.int64])))
    return (
        eighths(rows, width).to(dtype),
        eighths(tokens, width).to(dtype),
        target,
        start,
        end,
        draw(st.booleans()),
    ), {}


@st.composite
def losses_with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows = draw(st.integers(1, 9))
    logits = draw(st.sampled_from([None, f32, f16, bf16]))
    options = {"vocab_parallel_logits": None if logits is None else logits(rows, 7)}
    return (f32(rows).abs(), f32(rows).abs() + 1, f32(rows)), options


@st.composite
def gradients_with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, width, tokens = draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(128, 140))
    dtype = draw(st.sampled_from([torch.float16, torch.bfloat16]))
    mask = torch.randint(0, 256, (-(-rows // 8),), dtype=torch.uint8)
    target = torch.randint(0, tokens, (rows,), dtype=draw(st.sampled_from([torch.int32, torch.int64])))
    kept = {"softmax": None, "logits_max": f32(rows).abs(), "sum_exp_logits": f32(rows).abs() + 1}
    options = kept if draw(st.booleans()) else {"softmax": f32(rows, tokens).softmax(1)}
    return (f32(rows), eighths(rows, width).to(dtype), eighths(tokens, width).to(dtype), mask, target), options


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    x = tensor(draw, (3, 16), torch.float16, torch.bfloat16)
    weight = tensor(draw, (8, 16), torch.float16, torch.bfloat16)
    return (x, weight, TARGET, 0, mostly(draw, 8, st.sampled_from([-1, 9])), draw(st.booleans())), {}


CALLS = {f"npu_{SUM}": calls()}
# Exponential functions and sums in float32, in any order; gradients are rounded to bfloat16 at the coarsest, twice.
STATEMENTS = {
    f"npu_{SUM}": Statement(expected_sums, sums_with_data(), bound=2.0**-20),
    f"npu_{LOSS}": Statement(expected_loss, losses_with_data(), bound=2.0**-20),
    f"npu_{BACK}": Statement(expected_gradient, gradients_with_data(), bound=2.0**-7),
}

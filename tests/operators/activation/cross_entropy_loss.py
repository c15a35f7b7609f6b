"""Calls of npu_cross_entropy_loss and of its gradient."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import Draw, mostly, tensor
from support.call_table import Statement, bad
from support.tensors import bf16, ends, f16, f32

OP, BACK = "cross_entropy_loss", "cross_entropy_loss_backward"
X, TARGET = f32(3, 5), ends(4, 0, 2, dtype=torch.int64)
W = f32(5).abs() + 0.1
BACKWARD = (f32(1), X.log_softmax(1), TARGET)
# Upstream has no lowering, so it only runs eagerly: the allowed calls are generated below.
WRONG = [
    bad(OP, "input", "float64", X.double(), TARGET),
    bad(OP, "input", "three dimensions", X[None], TARGET),
    bad(OP, "input.size(1)", "no labels", X[:, :0], TARGET),
    bad(OP, "input.size(0)", "too many rows", torch.zeros(200001, 1), torch.zeros(200001, dtype=torch.int64)),
    bad(OP, "target", "int32", X, TARGET.int()),
    bad(OP, "target", "two dimensions", X, TARGET[None]),
    bad(OP, "target.size(0)", "fewer targets", X, TARGET[:2]),
    bad(OP, "weight", "float16 weights", X, TARGET, W.half()),
    bad(OP, "weight", "weights of two dimensions", X, TARGET, W[None]),
    bad(OP, "weight.size(0)", "fewer weights", X, TARGET, W[:4]),
    bad(OP, "reduction", "max", X, TARGET, reduction="max"),
    bad(OP, "ignore_index", "no such label", X, TARGET, ignore_index=5),
    bad(OP, "label_smoothing", "all of it", X, TARGET, label_smoothing=1.0),
    bad(OP, "lse_square_scale_for_zloss", "reserved", X, TARGET, lse_square_scale_for_zloss=0.5),
    bad(OP, "return_zloss", "reserved", X, TARGET, return_zloss=True),
    bad(BACK, "grad_loss", "another dtype", f16(1), *BACKWARD[1:]),
    bad(BACK, "grad_loss", "two dimensions", f32(1, 1), *BACKWARD[1:]),
    bad(BACK, "grad_loss.size(0)", "as of no reduction", f32(3), *BACKWARD[1:]),
    bad(BACK, "label_smoothing", "smoothing", *BACKWARD, label_smoothing=0.1),
    bad(BACK, "weight", "weights of a mean", *BACKWARD, W),
    bad(BACK, "ignore_index", "a label left out of a mean", *BACKWARD, ignore_index=1),
]
WRONG_VALUES = [
    bad(OP, "target[1]", "after the last label", X, ends(0, 5, 1, dtype=torch.int64)),
    bad(OP, "target[0]", "PyTorch's label to leave out", X, ends(-100, 0, 1, dtype=torch.int64)),
]


def _logarithms(x: torch.Tensor) -> Any:
    values = x.double().numpy()
    shifted = values - values.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def _weights(target: Any, weight: torch.Tensor | None, left_out: int, classes: int) -> tuple[Any, Any]:
    """The weights of all classes, and of the targets."""
    every = np.ones(classes) if weight is None else weight.double().numpy()
    return every, every[target] * (target != left_out)


def expected(x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, **options: Any) -> list[Any]:
    """Row by row in float64."""
    logarithms, targets = _logarithms(x), target.numpy()
    every, of_rows = _weights(targets, weight, options["ignore_index"], x.shape[1])
    share = options["label_smoothing"]
    losses = np.array([
        (1 - share) * -row[label] * of_row - share / len(row) * (row * every).sum() * (label != options["ignore_index"])
        for row, label, of_row in zip(logarithms, targets, of_rows, strict=True)
    ])  # fmt: skip
    reduced = {"none": losses, "sum": losses.sum()[None], "mean": losses.sum()[None] / (of_rows.sum() or np.nan)}
    nothing = np.empty(0, np.float32)
    return [reduced[options["reduction"]], logarithms, nothing, nothing]


def expected_gradient(grad: torch.Tensor, log_prob: torch.Tensor, target: torch.Tensor, **options: Any) -> Any:
    """Row by row in float64."""
    probabilities, targets = np.exp(log_prob.double().numpy()), target.numpy()
    _, of_rows = _weights(targets, options["weight"], options["ignore_index"], log_prob.shape[1])
    rows = grad.double().numpy() * of_rows / (len(targets) if options["reduction"] == "mean" else 1)
    return (probabilities - np.eye(log_prob.shape[1])[targets]) * rows[:, None]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, classes = draw(st.integers(1, 4)), draw(st.integers(2, 9))
    weight = f32(classes).abs() + 0.1 if draw(st.booleans()) else None
    options = {
        "reduction": draw(st.sampled_from(["mean", "sum", "none"])),
        "ignore_index": draw(st.sampled_from([-100, 0])),
        "label_smoothing": draw(st.sampled_from([0.0, 0.1])),
    }
    # At least one target is not ignored, because an empty mean is NaN; and it has a low probability, because a loss
    # close to 0 is the logarithm of a sum close to 1 and has few exact bits.
    x, target = draw(st.sampled_from([f32, f16, bf16]))(rows, classes), torch.randint(classes, (rows,))
    target[0] = 1
    x[0, 1] = x[0].min() - 1
    return (x, target, weight), options


@st.composite
def gradients(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    (x, target, weight), options = draw(with_data())
    mean = options["reduction"] == "mean"
    grad = f32(len(target) if options["reduction"] == "none" else 1).to(x.dtype)
    del options["label_smoothing"]
    arguments = options | {
        "ignore_index": -100 if mean else options["ignore_index"],
        "weight": None if mean else weight,
    }
    return (grad, x.float().log_softmax(1).to(x.dtype), target), arguments


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    x = tensor(draw, (2, 3), torch.float32, torch.bfloat16)
    options = {"reduction": mostly(draw, "sum", st.just("max")), "ignore_index": mostly(draw, 1, st.just(9))}
    return (x, torch.zeros(draw(st.sampled_from([2, 3])), dtype=torch.int64)), options


CALLS = {f"npu_{OP}": calls()}
# Results are rounded to input's dtype, bfloat16 at the coarsest: half a unit of 2^-8 of the largest.
STATEMENTS = {
    f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-8),
    f"npu_{BACK}": Statement(expected_gradient, gradients(), bound=2.0**-7),
}

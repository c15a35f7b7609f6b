"""Vocabulary-parallel cross-entropy loss in three steps: argument rules and results.

npu_fused_linear_online_max_sum takes input (T, H) and weight (V, H), both float16 or both bfloat16, and target (T,),
int32 or int64; the rank has the tokens of [vocab_start_index, vocab_end_index). Its results are reduced over the ranks
and passed to npu_fused_cross_entropy_loss_with_max_sum, all float32. The gradient takes the softmax of the loss, or the
maxima and sums instead. V is at least 128 for a gradient.
"""

from __future__ import annotations

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.activation import linear_cross_entropy as reference
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
INDICES = (torch.int32, torch.int64)
WIDEST_PRODUCT, WIDEST_GRADIENT = 65534, 65535
LEAST_TOKENS = 128
# Limits of a gradient with softmax: twice of it fits the memory of a core.
MOST_TOKENS, MOST_ROWS = 24528, 65536


def _check_product(rules: Rules, x: Tensor, weight: Tensor, widest: int) -> None:
    rules.dtype("input", x, HALVES)
    rules.rank("input", x, 2)
    rules.dtype("weight", weight, (x.dtype,), why=", the dtype of input")
    rules.rank("weight", weight, 2)
    rules.equal("weight.size(1)", weight.size(1), "input.size(1)", x.size(1))
    rules.require(x.size(1) <= widest, lambda: f"input.size(1) must be at most {widest}, got {x.size(1)}")


def _check_row(rules: Rules, name: str, row: Tensor, rows: int) -> None:
    rules.dtype(name, row, (torch.float32,))
    rules.rank(name, row, 1)
    rules.equal(f"{name}.size(0)", row.size(0), "the number of rows", rows)


def _check_smoothing(rules: Rules, label_smoothing: float | None) -> None:
    rules.require(not label_smoothing, lambda: f"label_smoothing must be 0, for it is reserved, got {label_smoothing}")


@operator("npu_fused_linear_online_max_sum", reference=reference.linear_online_max_sum)
def linear_online_max_sum(
    rules: Rules,
    input: Tensor,  # noqa: A002
    weight: Tensor,
    target: Tensor,
    vocab_start_index: int,
    vocab_end_index: int,
    return_logits: bool,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    _check_product(rules, input, weight, WIDEST_PRODUCT)
    rules.at_least("weight.size(0)", weight.size(0), 1)
    rules.dtype("target", target, INDICES)
    rules.rank("target", target, 1)
    rows = input.size(0)
    rules.equal("target.size(0)", target.size(0), "input.size(0)", rows)
    rules.require(vocab_start_index >= 0, lambda: f"vocab_start_index must not be negative, got {vocab_start_index}")
    share = vocab_end_index - vocab_start_index
    rules.require(
        share >= 0,
        lambda: f"vocab_end_index must be at least vocab_start_index, got {vocab_end_index} and {vocab_start_index}",
    )
    rules.require(
        share <= weight.size(0),
        lambda: (
            f"vocab_end_index must be at most vocab_start_index + weight.size(0), got {vocab_end_index} and "
            f"{vocab_start_index} + {weight.size(0)}"
        ),
    )
    of_row = Result((rows,), torch.float32)
    logits = Result((rows, weight.size(0)), input.dtype) if return_logits else None
    mask = Result(((rows + 7) // 8,), torch.uint8)
    return Plan((of_row, of_row, of_row, mask, Result((rows,), target.dtype), logits))


@operator("npu_fused_cross_entropy_loss_with_max_sum", reference=reference.cross_entropy_loss_with_max_sum)
def cross_entropy_loss_with_max_sum(
    rules: Rules,
    logits_max: Tensor,
    sum_exp_logits: Tensor,
    predicted_logits: Tensor,
    label_smoothing: float | None,
    input: Tensor | None,  # noqa: A002
    weight: Tensor | None,
    vocab_parallel_logits: Tensor | None,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.rank("logits_max", logits_max, 1)
    rows = logits_max.size(0)
    rows_by_name = {"logits_max": logits_max, "sum_exp_logits": sum_exp_logits, "predicted_logits": predicted_logits}
    for name, row in rows_by_name.items():
        _check_row(rules, name, row, rows)
    _check_smoothing(rules, label_smoothing)
    for name, reserved in (("input", input), ("weight", weight)):
        if reserved is not None:
            rules.refuse(f"{name} must be None, for it is reserved, got a tensor")
    loss, softmax = Result((rows,), torch.float32), None
    if vocab_parallel_logits is not None:
        rules.dtype("vocab_parallel_logits", vocab_parallel_logits, FLOATS)
        rules.rank("vocab_parallel_logits", vocab_parallel_logits, 2)
        rules.equal("vocab_parallel_logits.size(0)", vocab_parallel_logits.size(0), "logits_max.size(0)", rows)
        softmax = Result(tuple(vocab_parallel_logits.shape), torch.float32)
    return Plan((loss, softmax))


@operator(
    "npu_fused_linear_cross_entropy_loss_with_max_sum_backward",
    reference=reference.linear_cross_entropy_loss_with_max_sum_backward,
)
def linear_cross_entropy_loss_with_max_sum_backward(
    rules: Rules,
    grad: Tensor,
    input: Tensor,  # noqa: A002
    weight: Tensor,
    target_mask: Tensor,
    masked_target: Tensor,
    label_smoothing: float,
    logits_max: Tensor | None,
    sum_exp_logits: Tensor | None,
    softmax: Tensor | None,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    _check_product(rules, input, weight, WIDEST_GRADIENT)
    rows, tokens = input.size(0), weight.size(0)
    rules.at_least("weight.size(0)", tokens, LEAST_TOKENS)
    _check_row(rules, "grad", grad, rows)
    rules.dtype("target_mask", target_mask, (torch.uint8,))
    rules.rank("target_mask", target_mask, 1)
    rules.require(
        target_mask.size(0) * 8 >= rows,
        lambda: f"target_mask.size(0) must be at least (input.size(0) + 7) / 8, got {target_mask.size(0)} and {rows}",
    )
    rules.dtype("masked_target", masked_target, INDICES)
    rules.rank("masked_target", masked_target, 1)
    rules.equal("masked_target.size(0)", masked_target.size(0), "input.size(0)", rows)
    _check_smoothing(rules, label_smoothing)
    if softmax is not None:
        _check_softmax(rules, softmax, rows, tokens)
    else:
        for name, row in (("logits_max", logits_max), ("sum_exp_logits", sum_exp_logits)):
            if row is None:
                rules.refuse(f"{name} must be given where softmax is not, got None")
            _check_row(rules, name, row, rows)
    return Plan((Result(tuple(input.shape), input.dtype), Result(tuple(weight.shape), input.dtype)))


def _check_softmax(rules: Rules, softmax: Tensor, rows: int, tokens: int) -> None:
    rules.dtype("softmax", softmax, (torch.float32,))
    rules.rank("softmax", softmax, 2)
    rules.equal("softmax.size(0)", softmax.size(0), "input.size(0)", rows)
    rules.equal("softmax.size(1)", softmax.size(1), "weight.size(0)", tokens)
    rules.require(
        rows <= MOST_ROWS, lambda: f"softmax.size(0) must be at most {MOST_ROWS}, got {rows}; leave out softmax"
    )
    rules.require(
        tokens <= MOST_TOKENS, lambda: f"softmax.size(1) must be at most {MOST_TOKENS}, got {tokens}; leave out softmax"
    )

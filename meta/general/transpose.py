"""npu_transpose, and npu_confusion_transpose with its gradient: copies with permuted dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.general import transpose as reference
from torch import Tensor

DTYPES = (
    torch.float16,
    torch.float32,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
)


@operator("npu_transpose", reference=reference.transpose, chips=A2_A3_950)
def transpose(rules: Rules, input: Tensor, perm: Sequence[int], require_contiguous: bool) -> Plan:  # noqa: A002
    """Check a call against the documented rules and return its plan."""
    _check_order(rules, perm, "input.dim()", input.dim())
    rules.require(
        require_contiguous or input.is_contiguous(),
        lambda: f"require_contiguous may be False for a contiguous input on the host, got strides {input.stride()}",
    )
    return Plan((Result(tuple(input.size(dim) for dim in perm), input.dtype),))


@dataclass(frozen=True)
class ConfusionPlan(Plan):
    """The input is reshaped to ``before``, permuted by ``order``, and reshaped to ``after``."""

    before: tuple[Size, ...]
    order: tuple[int, ...]
    after: tuple[Size, ...]


@operator("npu_confusion_transpose", reference=reference.confusion_transpose, chips=A2_A3_950)
def confusion_transpose(
    rules: Rules, x: Tensor, perm: Sequence[int], shape: Sequence[int], transpose_first: bool
) -> ConfusionPlan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", x, DTYPES)
    for index, size in enumerate(shape):
        rules.at_least(f"shape[{index}]", size, 0)
    rules.equal("the number of elements of shape", prod(shape), "that of input", x.numel())
    if transpose_first:
        _check_order(rules, perm, "input.dim()", x.dim())
        return _confusion(x, tuple(x.shape), tuple(perm), tuple(shape))
    _check_order(rules, perm, "len(shape)", len(shape))
    return _confusion(x, tuple(shape), tuple(perm), tuple(shape[dim] for dim in perm))


@operator("npu_confusion_transpose_backward", reference=reference.confusion_transpose, chips=A2_A3_950)
def confusion_transpose_backward(
    rules: Rules, x: Tensor, perm: Sequence[int], shape: Sequence[Size], transpose_first: bool
) -> ConfusionPlan:
    """Check a gradient of shape ``shape``; ``transpose_first`` is the negation of the forward argument."""
    rules.dtype("grad", x, DTYPES)
    rules.equal("the number of elements of shape", prod(shape), "that of grad", x.numel())
    if transpose_first:
        _check_order(rules, perm, "grad.dim()", x.dim())
    else:
        _check_order(rules, perm, "len(shape)", len(shape))
    before = tuple(x.shape) if transpose_first else tuple(shape[dim] for dim in perm)
    inverse = tuple(perm.index(dim) for dim in range(len(perm)))
    return _confusion(x, before, inverse, tuple(shape))


def _confusion(x: Tensor, before: tuple[Size, ...], order: tuple[int, ...], after: tuple[Size, ...]) -> ConfusionPlan:
    return ConfusionPlan((Result(after, x.dtype),), before, order, after)


def _check_order(rules: Rules, perm: Sequence[int], what: str, count: int) -> None:
    rules.require(
        sorted(perm) == list(range(count)),
        lambda: f"perm must have each of the dimensions below {what}, {count}, once, got {list(perm)}",
    )

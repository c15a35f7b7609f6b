"""npu_group_norm_swish and its gradient: argument rules and results.

input has two to eight dimensions, none empty; input.size(1) is a multiple of num_groups. weight and bias have
an element per channel, all in one dtype. A gradient allows at most 4000 channels per group.
"""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.norm import group_norm_swish as reference
from torch import Tensor

MOST = 4000


def _check(rules: Rules, x: Tensor, num_groups: int, rows: dict[str, Tensor]) -> None:
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 2, 8)
    rules.not_empty("input", x)
    rules.at_least("num_groups", num_groups, 1)
    channels = x.size(1)
    rules.require(
        channels % num_groups == 0,
        lambda: f"input.size(1) must be a multiple of num_groups, {num_groups}, got {channels}",
    )
    for name, row in rows.items():
        rules.dtype(name, row, (x.dtype,), ", the dtype of input")
        rules.rank(name, row, 1)
        rules.equal(f"{name}.size(0)", row.size(0), "input.size(1)", channels)


@operator("npu_group_norm_swish", reference=reference.group_norm_swish)
def group_norm_swish(
    rules: Rules,
    x: Tensor,
    num_groups: int,
    weight: Tensor,
    bias: Tensor,
    eps: float | None,
    swish_scale: float | None,  # noqa: ARG001 - any
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    _check(rules, x, num_groups, {"weight": weight, "bias": bias})
    rules.require(eps is None or eps > 0, lambda: f"eps must be above 0, got {eps}")
    moment = Result((x.size(0), num_groups), weight.dtype)
    return Plan((Result(tuple(x.shape), x.dtype), moment, moment))


@operator("npu_group_norm_swish_grad", reference=reference.group_norm_swish_grad)
def group_norm_swish_grad(
    rules: Rules,
    grad: Tensor,
    x: Tensor,
    num_groups: int,
    weight: Tensor,
    bias: Tensor,
    mean: Tensor,
    rstd: Tensor,
    grad_input_mask: Sequence[bool],  # noqa: ARG001 - torch_npu asks for all three
    swish_scale: float | None,  # noqa: ARG001
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    _check(rules, x, num_groups, {"weight": weight, "bias": bias})
    rules.like("grad", grad, "input", x)
    for name, moment in (("mean", mean), ("rstd", rstd)):
        rules.dtype(name, moment, (x.dtype,), ", the dtype of input")
        rules.rank(name, moment, 2)
        rules.equal(f"{name}.size(0)", moment.size(0), "input.size(0)", x.size(0))
        rules.equal(f"{name}.size(1)", moment.size(1), "num_groups", num_groups)
    channels = x.size(1)
    rules.require(
        channels <= MOST * num_groups,
        lambda: f"input.size(1) must be at most {MOST} times num_groups for a gradient, got {channels}",
    )
    row = Result((channels,), weight.dtype)
    return Plan((Result(tuple(x.shape), x.dtype), row, row))

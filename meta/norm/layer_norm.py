"""npu_add_layer_norm, npu_deep_norm and npu_layer_norm_eval: argument rules and results.

gamma and beta have the same dtype and the shape of the last dimensions, which are normalised. The two terms of a sum
have the same shape, not empty. In npu_add_layer_norm they are float32 and half precision with float32 parameters, which
gives float32, or one dtype with parameters of that dtype or float32; in npu_deep_norm everything has one dtype. mean
and rstd are float32 with size 1 in the normalised dimensions. npu_layer_norm_eval takes parameters in the dtype of
input, or none.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.norm.rms import check_weight, like, rstd_of
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.norm import layer_norm as reference
from torch import Tensor


def _check_parameters(rules: Rules, gamma: Tensor, beta: Tensor, name: str, x: Tensor) -> None:
    check_weight(rules, "gamma", gamma, name, x)
    rules.dtype("beta", beta, (gamma.dtype,), ", the dtype of gamma")
    rules.rank("beta", beta, gamma.dim(), why=", as gamma has")
    check_weight(rules, "beta", beta, name, x)


@operator("npu_add_layer_norm", reference=reference.add_layer_norm, chips=A2_A3_950)
def add_layer_norm(
    rules: Rules,
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    beta: Tensor,
    epsilon: float,  # noqa: ARG001
    additional_output: bool,  # noqa: ARG001
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("x1", x1, FLOATS)
    rules.rank("x1", x1, 1, 8)
    is_mixed = x1.dtype != x2.dtype
    allowed = FLOATS if x1.dtype == torch.float32 else (x1.dtype, torch.float32)
    rules.dtype("x2", x2, allowed, f" beside x1 of {x1.dtype}")
    rules.same_shape("x2", x2, "x1", x1)
    rules.not_empty("x2", x2)
    kinds = (torch.float32,) if is_mixed else tuple(dict.fromkeys((x1.dtype, torch.float32)))
    rules.dtype("gamma", gamma, kinds, f" beside x1 of {x1.dtype} and x2 of {x2.dtype}")
    _check_parameters(rules, gamma, beta, "x1", x1)
    y = like(x1, torch.float32 if is_mixed else x1.dtype)
    return Plan((y, rstd_of(x1, gamma), rstd_of(x1, gamma), y))


@operator("npu_deep_norm", reference=reference.deep_norm)
def deep_norm(
    rules: Rules,
    x: Tensor,
    gx: Tensor,
    beta: Tensor,
    gamma: Tensor,
    alpha: float,  # noqa: ARG001
    epsilon: float,  # noqa: ARG001
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("x", x, FLOATS)
    rules.rank("x", x, 2, 8)
    rules.dtype("gx", gx, (x.dtype,), ", the dtype of x")
    rules.same_shape("gx", gx, "x", x)
    rules.not_empty("gx", gx)
    rules.dtype("gamma", gamma, (x.dtype,), ", the dtype of x")
    rules.rank("gamma", gamma, 1, x.dim() - 1)
    _check_parameters(rules, gamma, beta, "x", x)
    return Plan((rstd_of(x, gamma), rstd_of(x, gamma), like(x)))


@operator("npu_layer_norm_eval", reference=reference.layer_norm_eval)
def layer_norm_eval(
    rules: Rules,
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,  # noqa: ARG001
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", x, FLOATS)
    count = len(normalized_shape)
    rules.require(
        1 <= count <= x.dim(),
        lambda: f"normalized_shape must have 1 to {x.dim()} elements, the dimensions of input, got {count}",
    )
    for dim in range(-count, 0):
        rules.equal(f"normalized_shape[{dim}]", normalized_shape[dim], f"input.size({dim})", x.size(dim))
    for name, row in (("weight", weight), ("bias", bias)):
        if row is not None:
            rules.dtype(name, row, (x.dtype,), ", the dtype of input")
            rules.rank(name, row, count, why=", as normalized_shape has elements")
            check_weight(rules, name, row, "input", x)
    return Plan((like(x),))

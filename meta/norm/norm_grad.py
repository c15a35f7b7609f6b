"""The gradients of npu_rms_norm and npu_deep_norm, which torch_npu's autograd calls.

dy has the shape and dtype of the input, mean and rstd those of the forward call. No tensor may be empty: the device's
tiling refuses that, against the document. Gradients of gamma and beta are float32 for every dtype.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.norm.rms import check_weight, like
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.norm import norm_grad as reference
from torch import Tensor


@operator("npu_rms_norm_backward", reference=reference.rms_norm_backward, node="RmsNormGrad", chips=A2_A3_950)
def rms_norm_backward(rules: Rules, dy: Tensor, x: Tensor, gamma: Tensor, rstd: Tensor) -> Plan:
    """Check a call against what the device supports and return its plan."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 1, 8)
    rules.like("dy", dy, "input", x)
    rules.not_empty("dy", dy)
    rules.dtype("gamma", gamma, (x.dtype, torch.float32), f" beside input of {x.dtype}")
    check_weight(rules, "gamma", gamma, "input", x)
    rules.dtype("rstd", rstd, (torch.float32,))
    _check_moments(rules, "rstd", rstd, "input", x, gamma)
    return Plan((like(x), like(gamma, torch.float32)))


@operator("npu_deep_norm_backward", reference=reference.deep_norm_backward)
def deep_norm_backward(
    rules: Rules,
    dy: Tensor,
    x: Tensor,
    gx: Tensor,
    gamma: Tensor,
    mean: Tensor,
    rstd: Tensor,
    alpha: float,  # noqa: ARG001
) -> Plan:
    """Check a call against what the device supports and return its plan."""
    rules.dtype("dy", dy, FLOATS)
    rules.rank("dy", dy, 2, 8)
    rules.not_empty("dy", dy)
    rules.like("x", x, "dy", dy)
    rules.like("gx", gx, "dy", dy)
    rules.dtype("gamma", gamma, (dy.dtype,), ", the dtype of dy")
    rules.rank("gamma", gamma, 1, dy.dim() - 1)
    check_weight(rules, "gamma", gamma, "dy", dy)
    for name, moment in (("mean", mean), ("rstd", rstd)):
        rules.dtype(name, moment, (torch.float32,))
        _check_moments(rules, name, moment, "dy", dy, gamma)
    parameter = like(gamma, torch.float32)
    return Plan((like(x), like(gx), parameter, parameter))


def _check_moments(rules: Rules, name: str, moment: Tensor, x_name: str, x: Tensor, gamma: Tensor) -> None:
    """Check a statistic with size 1 in the normalised dimensions."""
    rules.rank(name, moment, x.dim(), why=f", as {x_name} has")
    kept = x.dim() - gamma.dim()
    for dim, size in enumerate(moment.shape):
        if dim < kept:
            rules.equal(f"{name}.size({dim})", size, f"{x_name}.size({dim})", x.size(dim))
        else:
            rules.equal(f"{name}.size({dim})", size, "1", 1)

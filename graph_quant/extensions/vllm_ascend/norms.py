"""npu_add_rms_norm_bias and npu_gemma_rms_norm of vllm-ascend.

``npu_add_rms_norm_bias`` is a residual addition, its RMS norm and the addition of beta. The sum is returned rounded,
and y is rounded after the product with rstd. float16 is rounded after each later step as well; bfloat16 computes the
product with gamma and the sum with beta in float32 and rounds once.

Rows of bfloat16 are normalised before or after the sum is rounded, by the kernel that the host code selects on A2 and
A3: kernels for narrow rows, for a row per vector core and, on A2, for up to 512 rows of at most 5120 columns read the
rounded sum. The general kernel reads the sum itself. Rows that do not fit into a core take rstd from the sum itself,
and y from the rounded one.
"""

from __future__ import annotations

import math

import torch
from graph_quant import chip
from graph_quant.extensions.reuse import plan_as
from graph_quant.meta import Plan, Rules, operator
from graph_quant.meta.norm.rms import check_epsilon, check_sum, like, rstd_of
from graph_quant.meta.norm.rms_norm import gemma_rms_norm as npu_gemma_rms_norm
from graph_quant.reference.norm.rms import has_core_per_row, reciprocal_rms
from graph_quant.reference.norm.rms_norm import gemma_rms_norm
from torch import Tensor

# Elements of a row, without and with beta: the most for the kernel for narrow rows, and the most that fit into a core.
_NARROW, _ROOM = {False: 2000, True: 1600}, {False: 12288, True: 11264}
# The kernel for several rows at once, on A2: columns, a multiple of the alignment, rows, and rows of each matrix.
_SEVERAL_COLUMNS, _ALIGNED, _SEVERAL_ROWS, _SEVERAL_INNER = 5120, 16, 512, 8


def add_rms_norm_bias(
    x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, rstd, x1 + x2)``."""
    wide = x1.float() + x2.float()
    x = wide.to(x1.dtype)
    width = math.prod(gamma.shape)
    fits = width <= _ROOM[beta is not None]
    if x1.dtype != torch.bfloat16 or (fits and _reads_rounded_sum(x1, gamma, width, beta is not None)):
        wide = x.float()
    rstd = reciprocal_rms(wide, gamma.dim(), epsilon)
    normed = ((wide if fits else x.float()) * rstd).to(x1.dtype)
    if x1.dtype == torch.bfloat16:
        scaled = normed.float() * gamma.float()
        return (scaled if beta is None else scaled + beta.float()).to(x1.dtype), rstd, x
    scaled = normed * gamma
    return scaled if beta is None else scaled + beta, rstd, x


def _reads_rounded_sum(x1: Tensor, gamma: Tensor, width: int, with_beta: bool) -> bool:
    """Whether the kernel for bfloat16 rows of ``width``, which fit into a core, normalises the rounded sum."""
    if width <= _NARROW[with_beta] or has_core_per_row(x1, gamma.dim()):
        return True
    in_matrices = x1.dim() == 2 or (x1.dim() == 3 and x1.size(1) <= _SEVERAL_INNER)
    return bool(
        not chip.is_a3()
        and gamma.dim() == 1
        and in_matrices
        and x1.size(0) <= _SEVERAL_ROWS
        and width <= _SEVERAL_COLUMNS
        and width % _ALIGNED == 0
    )


@operator("_C_ascend::npu_add_rms_norm_bias", reference=add_rms_norm_bias)
def rules_of_add_rms_norm_bias(
    rules: Rules, x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float
) -> Plan:
    """Check a call by the extension's host code and return its plan."""
    check_sum(rules, x1, x2, gamma)
    if beta is not None:
        rules.like("beta", beta, "gamma", gamma)
    check_epsilon(rules, epsilon)
    return Plan((like(x1), rstd_of(x1, gamma), like(x1)))


@operator("_C_ascend::npu_gemma_rms_norm", reference=gemma_rms_norm)
def rules_of_gemma_rms_norm(rules: Rules, x: Tensor, gamma: Tensor, epsilon: float) -> Plan:
    """Return the plan of torch_npu's npu_gemma_rms_norm, which the extension calls."""
    return plan_as(npu_gemma_rms_norm, rules, x, gamma, epsilon)

"""npu_swiglu_clip_quant: gates rows, bounds each by its largest magnitude times the alpha of its group, quantises it.

In float32, with a rounding after each operation: ``bound = absmax(s) * alpha``, ``scale = bound * (1 / 127)`` and
``y = rint(clamp(s, -bound, bound) / scale)``. The device leaves rows after the last group as they are; here they are 0.
"""

from __future__ import annotations

import torch
from graph_quant.destination import INT8
from graph_quant.ge import kernel
from graph_quant.meta import Plan, Result, Rules, operator
from graph_quant.reference.activation.activation_functions import apply_swiglu
from graph_quant.reference.grouping import COUNTS, owners
from graph_quant.reference.rounding import saturate
from torch import Tensor

_NAME = "npu_swiglu_clip_quant"
_WIDEST, _ALIGNED = 10496, 64


def swiglu_clip_quant(
    x: Tensor, group_index: Tensor, group_alpha: Tensor, activate_left: bool
) -> tuple[Tensor, Tensor]:
    """Return the quantised rows and their scales."""
    rows = apply_swiglu(x.float(), activate_left, 0, 0.0, 1.0, 0.0)
    owner = owners(_NAME, "group_index", group_index, COUNTS, group_index.size(0), x.size(0))
    alpha = group_alpha.index_select(0, owner.clamp(min=0)).unsqueeze(-1)
    bound = rows.abs().amax(-1, keepdim=True) * alpha
    scale = torch.where((owner >= 0).unsqueeze(-1), bound * (1 / 127), 0.0)
    y = saturate(torch.minimum(torch.maximum(rows, -bound), bound) / scale, INT8)
    return torch.where((owner >= 0).unsqueeze(-1), y, 0), scale.squeeze(-1)


@operator(f"custom::{_NAME}", reference=swiglu_clip_quant)
def rules_of_swiglu_clip_quant(
    rules: Rules,
    x: Tensor,
    group_index: Tensor,
    group_alpha: Tensor,
    activate_left: bool,  # noqa: ARG001
    quant_mode: int,
    clamp_mode: int,
) -> Plan:
    """Return the plan of a call; raise if the extension's document does not allow it."""
    rules.rank("x", x, 2)
    rules.dtype("x", x, (torch.bfloat16,))
    width = x.size(1)
    rules.require(width % _ALIGNED == 0, lambda: f"x.size(1) must be a multiple of {_ALIGNED}, got {width}")
    rules.require(width <= _WIDEST, lambda: f"x.size(1) must be at most {_WIDEST}, got {width}")
    for name, value, dtype in (("group_index", group_index, torch.int64), ("group_alpha", group_alpha, torch.float32)):
        rules.rank(name, value, 1)
        rules.dtype(name, value, (dtype,))
    rules.equal("group_alpha.size(0)", group_alpha.size(0), "group_index.size(0)", group_index.size(0))
    rules.require(quant_mode == 1, lambda: f"quant_mode must be 1, got {quant_mode}")
    rules.require(clamp_mode == 1, lambda: f"clamp_mode must be 1, got {clamp_mode}")
    return Plan((Result((x.size(0), width // 2), torch.int8), Result((x.size(0),), torch.float32)))


@kernel("SwigluClipQuant", flops=8)
def swiglu_clip_quant_node(
    x: Tensor,
    group_index: Tensor,
    group_alpha: Tensor,
    *,
    activate_left: bool = False,
    quant_mode: str = "dynamic",  # noqa: ARG001
    clamp_mode: int = 1,  # noqa: ARG001
) -> tuple[Tensor, Tensor]:
    """Return the GE node, as the extension's converter builds it."""
    return swiglu_clip_quant(x, group_index, group_alpha, activate_left)

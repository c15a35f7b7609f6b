"""npu_quant_scatter and npu_quant_scatter_: argument rules and results.

input is int8 of three to eight dimensions, the last a multiple of 32. updates is bfloat16, with quant_scales and
quant_zero_points of bfloat16, or float16, with float32 and int32; they have one element per column of updates, in any
shape. indices and sizes follow scatter_update; axis is neither the first dimension nor the last.
"""

from __future__ import annotations

import torch
from graph_quant.destination import INT8, describe, find
from graph_quant.meta.cache.scatter_update import check_positions
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.cache import quant_scatter as reference
from torch import Tensor

# By updates: scales and zero points.
_PARAMETERS = {torch.bfloat16: (torch.bfloat16, torch.bfloat16), torch.float16: (torch.float32, torch.int32)}


@operator("npu_quant_scatter_", reference=reference.quant_scatter_, results=lambda _: ("x",))
@operator("npu_quant_scatter", reference=reference.quant_scatter)
def quant_scatter(
    rules: Rules,
    x: Tensor,
    indices: Tensor,
    updates: Tensor,
    quant_scales: Tensor,
    quant_zero_points: Tensor | None,
    axis: int,
    quant_axis: int,
    reduce: str,
    dst_type: int | None,
    round_mode: str | None,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", x, (torch.int8,))
    rules.rank("input", x, 3, 8)
    rules.dtype("updates", updates, tuple(_PARAMETERS))
    last = x.dim() - 1
    rules.require(
        -x.dim() <= axis < x.dim() and axis % x.dim() not in (0, last),
        lambda: f"axis must be a dimension of input other than the first and last, got {axis} of {x.dim()}",
    )
    check_positions(rules, x, indices, updates, axis)
    rules.require(x.size(-1) % 32 == 0, lambda: f"input.size(-1) must be a multiple of 32, got {x.size(-1)}")
    rules.one_of("quant_axis", quant_axis, (-1, last), ", the last dimension")
    rules.one_of("reduce", reduce, ("update",))
    rules.require(find(dst_type) is INT8, lambda: f"dst_type must be None or torch.int8, got {describe(dst_type)}")
    rules.one_of("round_mode", round_mode, (None, "rint"))
    for name, tensor, dtype in zip(
        ("quant_scales", "quant_zero_points"),
        (quant_scales, quant_zero_points),
        _PARAMETERS[updates.dtype],
        strict=True,
    ):
        if tensor is not None:
            rules.dtype(name, tensor, (dtype,), f" for updates {updates.dtype}")
            rules.rank(name, tensor, 1, 8)
            rules.equal(f"{name}.numel()", tensor.numel(), "updates.size(-1)", updates.size(-1))
    return Plan((Result(tuple(x.shape), x.dtype),))

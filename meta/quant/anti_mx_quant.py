"""npu_anti_mx_quant: what may be passed, and what comes back. Only Ascend 950 has it.

x is float8 of the dtype that src_type names, or uint8 with two float4, of one to seven dimensions, not empty. mxscale
has its blocks of 32 along the last axis, in pairs, as float8_e8m0fnu or uint8. The result is float32, float16 or
bfloat16.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.destination import SCALAR_TYPES, describe
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.quant.dynamic_mx_quant import find_target, stored_scales
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.narrow_floats import NarrowFloat
from graph_quant.reference.quant.anti_mx_quant import anti_mx_quant as reference
from torch import Tensor

_BLOCK = 32
_DEFAULT_OUTPUT, _DEFAULT_SOURCE = 15, 296


@dataclass(frozen=True)
class AntiMxPlan(Plan):
    """``source`` is the format of x, and ``output`` the dtype of the result."""

    source: NarrowFloat
    output: torch.dtype


@operator("npu_anti_mx_quant", reference=reference, chips=(ASCEND_950,))
def anti_mx_quant(
    rules: Rules,
    x: Tensor,
    mxscale: Tensor,
    axis: int | None,
    dst_type: int | torch.dtype | None,
    src_type: int | torch.dtype | None,
) -> AntiMxPlan:
    """The plan of a call that the documents and the kernel's checks allow; any other call is refused."""
    source = find_target(rules, "src_type", _DEFAULT_SOURCE if src_type is None else src_type)
    rules.dtype("x", x, (source.dtype or torch.uint8,), f" for src_type {source.name}")
    rules.rank("x", x, 1, 7)
    rules.not_empty("x", x)
    rules.require(axis in (None, -1, x.dim() - 1), lambda: f"axis must be the last one, got {axis}")
    requested = _DEFAULT_OUTPUT if dst_type is None else dst_type
    output = SCALAR_TYPES.get(requested) if isinstance(requested, int) else requested
    if output not in FLOATS:
        rules.refuse(f"dst_type must be torch.float32, torch.float16 or torch.bfloat16, got {describe(requested)}")
    shape = tuple(x.shape) if source.dtype is not None else (*x.shape[:-1], x.size(-1) * 2)
    rules.dtype("mxscale", mxscale, (torch.uint8, torch.float8_e8m0fnu))
    expected = stored_scales(shape, -1, _BLOCK)
    rules.rank("mxscale", mxscale, len(expected))
    for dim, size in enumerate(expected):
        rules.equal(f"mxscale.size({dim})", mxscale.size(dim), "that of the scales of x", size)
    return AntiMxPlan((Result(shape, output),), source, output)

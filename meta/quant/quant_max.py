"""npu_quant_max: what may be passed, and what comes back. Only Ascend 950 has it.

x is float32, float16 or bfloat16 of one to eight dimensions, not empty, and scale one float32 number. float8 is rounded
to nearest; HiFloat8 half away from zero. Two groups or more have a kernel of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.destination import HIFLOAT8, NARROW, Destination
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.quant.quant_max import quant_max as reference
from graph_quant.refusals import UndescribedError
from torch import Tensor


@dataclass(frozen=True)
class QuantMaxPlan(Plan):
    """``destination`` is what x becomes."""

    destination: Destination


@operator("npu_quant_max", reference=reference, chips=(ASCEND_950,))
def quant_max(
    rules: Rules,
    x: Tensor,
    scale: Tensor,
    round_mode: str,
    dst_dtype: int | torch.dtype,
    group_list: Tensor | None,
) -> QuantMaxPlan:
    """The plan of a call that the documents and the kernel's checks allow; any other call is refused."""
    rules.dtype("x", x, FLOATS)
    rules.rank("x", x, 1, 8)
    rules.not_empty("x", x)
    rules.dtype("scale", scale, (torch.float32,))
    rules.rank("scale", scale, 1)
    rules.equal("scale.size(0)", scale.size(0), "1", 1)
    destination = rules.destination("dst_dtype", dst_dtype, NARROW)
    modes = ("round", "hybrid") if destination is HIFLOAT8 else ("rint",)
    rules.one_of("round_mode", round_mode, modes, f" for {destination.name}")
    if round_mode == "hybrid":
        raise UndescribedError(f"{rules.op}: round_mode hybrid is not described for Ascend 950 yet")
    if group_list is not None and group_list.dim() and group_list.size(0) > 1:
        raise UndescribedError(f"{rules.op}: group_list of several groups is not described for Ascend 950 yet")
    return QuantMaxPlan((Result(tuple(x.shape), destination.storage), Result((1,), x.dtype)), destination)

"""npu_anti_quant: what may be passed, and what comes back.

x is int8 of one to eight dimensions, or int32 that hold eight int4 each. scale is float32 or bfloat16, (1,)
or one number for each element of the last dimension, and offset is like scale. src_dtype must agree with x's dtype.
The result is float16 or bfloat16, of x's shape or, from int4, at eight times the width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.destination import BFLOAT16, FLOAT16, INT4, SCALAR_TYPES, Destination, describe
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.quant.anti_quant import anti_quant as reference
from torch import Tensor

SOURCES = {torch.int8: torch.int8, torch.int32: torch.quint4x2}
SCALES = (torch.float32, torch.bfloat16)


@dataclass(frozen=True)
class AntiQuantPlan(Plan):
    """``dst_type`` is the dtype of the result."""

    dst_type: Destination


@operator("npu_anti_quant", reference=reference, node="AscendAntiQuantV2")
def anti_quant(
    rules: Rules,
    x: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    dst_dtype: torch.dtype | int | None,
    src_dtype: torch.dtype | int | None,
) -> AntiQuantPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("x", x, tuple(SOURCES))
    rules.rank("x", x, 1, 8)
    source = SCALAR_TYPES.get(src_dtype) if isinstance(src_dtype, int) else src_dtype
    rules.require(
        src_dtype is None or source == SOURCES[x.dtype],
        lambda: f"src_dtype must be None or {SOURCES[x.dtype]} beside x of {x.dtype}, got {describe(src_dtype)}",
    )
    output = FLOAT16 if dst_dtype is None else rules.destination("dst_dtype", dst_dtype, (FLOAT16, BFLOAT16))
    int4 = x.dtype == torch.int32
    width = x.size(-1) * INT4.packing if int4 else x.size(-1)
    rules.dtype("scale", scale, SCALES)
    rules.rank("scale", scale, 1)
    rules.one_or("scale.size(0)", scale.size(0), "8 * x.size(-1), its int4" if int4 else "x.size(-1)", width)
    if offset is not None:
        rules.dtype("offset", offset, (scale.dtype,), why=", the dtype of scale")
        rules.rank("offset", offset, 1)
        rules.equal("offset.size(0)", offset.size(0), "scale.size(0)", scale.size(0))
    result = Result((*x.shape[:-1], width), output.storage)
    return AntiQuantPlan((result,), output, int4_arguments=frozenset({"x"} if int4 else ()))

"""npu_anti_quant: what may be passed, and what comes back.

x is int8 of one to eight dimensions, or int32 that hold eight int4 each. scale is float32 or bfloat16, (1,)
or one number for each element of the last dimension, and offset is like scale. src_dtype, where it is given,
says what x's dtype says. The result is float16 or bfloat16, of x's shape or, from int4, at eight times the width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.destination import BFLOAT16, FLOAT16, INT4, SCALAR_TYPES, Destination, describe
from graph_quant.meta.rules import Rules, Size, empty

OPERATOR = "npu_anti_quant"
RULES = Rules(OPERATOR)
SOURCES = {torch.int8: torch.int8, torch.int32: torch.quint4x2}
SCALES = (torch.float32, torch.bfloat16)


@dataclass(frozen=True)
class Plan:
    """How the call is carried out: ``int4`` when each element of x holds eight."""

    output: Destination
    shape: tuple[Size, ...]
    int4: bool


def check(
    x: torch.Tensor,
    scale: torch.Tensor,
    *,
    offset: torch.Tensor | None = None,
    dst_dtype: torch.dtype | int | None = None,
    src_dtype: torch.dtype | int | None = None,
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    RULES.one_device(x=x, scale=scale, offset=offset)
    RULES.dtype("x", x, tuple(SOURCES))
    RULES.rank("x", x, 1, 8)
    _check_source(x, src_dtype)
    output = FLOAT16 if dst_dtype is None else RULES.destination("dst_dtype", dst_dtype, (FLOAT16, BFLOAT16))
    int4 = x.dtype == torch.int32
    width = x.size(-1) * INT4.packing if int4 else x.size(-1)
    RULES.dtype("scale", scale, SCALES)
    RULES.rank("scale", scale, 1)
    RULES.one_or("scale.size(0)", scale.size(0), "8 * x.size(-1), its int4" if int4 else "x.size(-1)", width)
    if offset is not None:
        RULES.dtype("offset", offset, (scale.dtype,), why=", the dtype of scale")
        RULES.rank("offset", offset, 1)
        RULES.equal("offset.size(0)", offset.size(0), "scale.size(0)", scale.size(0))
    return Plan(output, (*x.shape[:-1], width), int4)


def _check_source(x: torch.Tensor, requested: torch.dtype | int | None) -> None:
    given = SCALAR_TYPES.get(requested) if isinstance(requested, int) else requested
    RULES.require(
        requested is None or given == SOURCES[x.dtype],
        lambda: f"src_dtype must be None or {SOURCES[x.dtype]} beside x of {x.dtype}, got {describe(requested)}",
    )


def infer(
    x: torch.Tensor,
    scale: torch.Tensor,
    *,
    offset: torch.Tensor | None = None,
    dst_dtype: torch.dtype | int | None = None,
    src_dtype: torch.dtype | int | None = None,
) -> torch.Tensor:
    """The result of a call, without its values."""
    plan = check(x, scale, offset=offset, dst_dtype=dst_dtype, src_dtype=src_dtype)
    return empty(x, plan.shape, plan.output.storage)

"""npu_quant_matmul: what may be passed, and what comes back.

x1 (…, m, k) and x2 (…, k, n) are int8 of two to six dimensions whose leading ones broadcast, or int32
holding int4: x1 (…, m, k/8) and x2 (k, n/8), or (k/8, n) as a transposed view. scale and offset are (1,) or
(n,), pertoken_scale is (m,), bias (n,) or, for results of three dimensions, (batch, 1, n). Which dtypes go
together is the table in ``matmul_dtypes``; only int8 results take an offset.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.destination import BFLOAT16, FLOAT16, INT8, INT32, Destination
from graph_quant.meta.matmul_dtypes import accepts_for
from graph_quant.meta.matmul_shapes import broadcast, check_bias, check_depth
from graph_quant.meta.rules import Rules, Size, empty

OPERATOR = "npu_quant_matmul"
RULES = Rules(OPERATOR)


@dataclass(frozen=True)
class Plan:
    """How the call is carried out: ``packs_scale`` when a float scale must first become a packed parameter."""

    output: Destination
    shape: tuple[Size, ...]
    int4: bool
    packed_along_k: bool
    packs_scale: bool


def check(
    x1: torch.Tensor,
    x2: torch.Tensor,
    scale: torch.Tensor,
    *,
    offset: torch.Tensor | None = None,
    pertoken_scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    output_dtype: torch.dtype | int | None = None,
    **only_950: object,
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    for argument, value in only_950.items():
        if value is not None:
            RULES.refuse(f"{argument} is for Ascend 950, leave it None on A2 and A3, got {type(value).__name__}")
    RULES.one_device(x1=x1, x2=x2, scale=scale, offset=offset, pertoken_scale=pertoken_scale, bias=bias)
    output = RULES.destination("output_dtype", output_dtype, (INT8, FLOAT16, BFLOAT16, INT32))
    RULES.dtype("x1", x1, (torch.int8, torch.int32))
    RULES.dtype("x2", x2, (x1.dtype,), ", the dtype of x1")
    int4 = x1.dtype == torch.int32
    RULES.rank("x1", x1, 2, 6)
    RULES.rank("x2", x2, 2, None if int4 else 6, why=" when it holds int4" if int4 else "")
    packed_along_k, columns = check_depth(RULES, x1, x2, int4)
    shape = (*broadcast(RULES, x1.shape[:-2], x2.shape[:-2]), x1.size(-2), columns)
    accepts = accepts_for(RULES, output, int4, pertoken_scale)
    why = f" for {output.storage} output{'' if pertoken_scale is None else ' with pertoken_scale'}"
    RULES.dtype("scale", scale, accepts.scale, why)
    RULES.rank("scale", scale, 1)
    RULES.one_or("scale.size(0)", scale.size(0), "n", columns)
    if offset is not None:
        RULES.require(output is INT8, lambda: f"offset is for torch.int8 output, got output_dtype {output.storage}")
        RULES.dtype("offset", offset, (torch.float32,))
        RULES.rank("offset", offset, 1)
        RULES.one_or("offset.size(0)", offset.size(0), "n", columns)
    if pertoken_scale is not None:
        RULES.dtype("pertoken_scale", pertoken_scale, (torch.float32,))
        RULES.rank("pertoken_scale", pertoken_scale, 1)
        RULES.equal("pertoken_scale.size(0)", pertoken_scale.size(0), "m", x1.size(-2))
    if bias is not None:
        RULES.dtype("bias", bias, accepts.bias, why)
        check_bias(RULES, bias, shape, int4)
    packs_scale = scale.dtype == torch.float32 and torch.int64 in accepts.scale
    return Plan(output, shape, int4, packed_along_k, packs_scale)


def infer(
    x1: torch.Tensor,
    x2: torch.Tensor,
    scale: torch.Tensor,
    *,
    offset: torch.Tensor | None = None,
    pertoken_scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    output_dtype: torch.dtype | int | None = None,
    **only_950: object,
) -> torch.Tensor:
    """The result of a call, without its values."""
    plan = check(
        x1,
        x2,
        scale,
        offset=offset,
        pertoken_scale=pertoken_scale,
        bias=bias,
        output_dtype=output_dtype,
        **only_950,
    )
    return empty(x1, plan.shape, plan.output.storage)

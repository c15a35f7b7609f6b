"""npu_quant_matmul: what may be passed, and what comes back.

x1 (…, m, k) and x2 (…, k, n) are int8 of two to six dimensions whose leading ones broadcast, or int32
holding int4: x1 (…, m, k/8) and x2 (k, n/8), or (k/8, n) as a transposed view. scale and offset are (1,) or
(n,), pertoken_scale is (m,), bias (n,) or, for results of three dimensions, (batch, 1, n). Which dtypes go
together is the table below; only int8 results take an offset.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.destination import BFLOAT16, FLOAT16, INT4, INT8, INT32, Destination
from graph_quant.meta.rules import Rules, Size, empty, guard_or_false, sym_or

OPERATOR = "npu_quant_matmul"
RULES = Rules(OPERATOR)
PACKED_OR_FLOAT = (torch.int64, torch.float32)
FLOAT_SCALES = (torch.float32, torch.bfloat16)


@dataclass(frozen=True)
class Accepts:
    """The dtypes that go with one output, with and without per-token scales."""

    scale: tuple[torch.dtype, ...]
    bias: tuple[torch.dtype, ...] = (torch.int32,)
    int4: bool = False


WITHOUT_TOKENS = {
    INT8: Accepts(PACKED_OR_FLOAT),
    FLOAT16: Accepts(PACKED_OR_FLOAT, int4=True),
    BFLOAT16: Accepts(FLOAT_SCALES, (torch.int32, torch.bfloat16, torch.float32)),
    INT32: Accepts(FLOAT_SCALES),
}
WITH_TOKENS = {
    FLOAT16: Accepts((torch.float32,), (torch.int32, torch.float16, torch.float32), int4=True),
    BFLOAT16: Accepts(FLOAT_SCALES, (torch.int32, torch.bfloat16, torch.float32), int4=True),
}


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
    packed_along_k, columns = _check_depth(x1, x2, int4)
    shape = (*_broadcast(x1.shape[:-2], x2.shape[:-2]), x1.size(-2), columns)
    accepts = _accepts(output, int4, pertoken_scale)
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
        _check_bias(bias, shape, int4)
    packs_scale = scale.dtype == torch.float32 and torch.int64 in accepts.scale
    return Plan(output, shape, int4, packed_along_k, packs_scale)


def _accepts(output: Destination, int4: bool, pertoken_scale: torch.Tensor | None) -> Accepts:
    table, tokens = (WITHOUT_TOKENS, "without") if pertoken_scale is None else (WITH_TOKENS, "with")
    allowed = [each for each, accepts in table.items() if accepts.int4 or not int4]
    operands = "int4 operands" if int4 else "int8 operands"
    RULES.require(
        output in allowed,
        lambda: (
            f"output_dtype must be {' or '.join(str(each.storage) for each in allowed)} for {operands} {tokens} "
            f"pertoken_scale, got {output.storage}"
        ),
    )
    return table[output]


def _check_depth(x1: torch.Tensor, x2: torch.Tensor, int4: bool) -> tuple[bool, Size]:
    """Whether int4 x2 is packed along k, and the number of columns of the product."""
    if not int4:
        RULES.equal("x2.size(-2)", x2.size(-2), "x1.size(-1)", x1.size(-1))
        return False, x2.size(-1)
    if guard_or_false(x2.size(-2) == x1.size(-1)):
        return True, x2.size(-1)
    depth = x1.size(-1) * INT4.packing
    RULES.require(
        x2.size(-2) == depth,
        lambda: f"x2.size(-2) must equal k, {depth}, or k/8 in a transposed view, {x1.size(-1)}, got {x2.size(-2)}",
    )
    return False, x2.size(-1) * INT4.packing


def _broadcast(batch1: torch.Size, batch2: torch.Size) -> tuple[Size, ...]:
    """Leading dimensions broadcast from the right; a size of 1 gives way to any other, 0 included."""
    longer, shorter = (batch1, batch2) if len(batch1) >= len(batch2) else (batch2, batch1)
    extra = len(longer) - len(shorter)
    shape: list[Size] = list(longer[:extra])
    for one, other in zip(longer[extra:], shorter, strict=True):
        RULES.require(
            sym_or(one == other, one == 1, other == 1),
            lambda: f"leading dimensions of x1 and x2 must broadcast, got {list(batch1)} and {list(batch2)}",
        )
        shape.append(other if guard_or_false(one == 1) else one)
    return tuple(shape)


def _check_bias(bias: torch.Tensor, shape: tuple[Size, ...], int4: bool) -> None:
    RULES.require(
        bias.dim() == 1 or (bias.dim() == 3 and len(shape) == 3 and not int4),
        lambda: f"bias must have 1 dimension, or 3 for int8 operands and a result of 3, got {list(bias.shape)}",
    )
    RULES.equal("bias.size(-1)", bias.size(-1), "n", shape[-1])
    if bias.dim() == 3:
        RULES.equal("bias.size(0)", bias.size(0), "the batch", shape[0])
        RULES.equal("bias.size(1)", bias.size(1), "1", 1)


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

"""npu_mm_all_reduce_base: argument rules and results.

x1 is (m, k) or (b, s, k), x2 (k, n). There are three forms:

* both operands are float16 or bfloat16;
* x2 is int8 with antiquant_scale, (1,), (n,) or (1, n), or one row per group of k with antiquant_group_size, and an
  optional antiquant_offset of the same shape;
* both are int8 with dequant_scale, (1,), (n,) or (1, n): packed for float16 results, bfloat16 for bfloat16 results, and
  float32 or bfloat16 beside pertoken_scale, a float32 per row of x1. With comm_quant_scale_1 and _2, (n,) or (1, n) in
  the dtype of the result, ranks communicate int8.

bias is (n,), x3 has the shape of the result.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta.collective.matmul_rules import (
    HALVES,
    MatmulPlan,
    check_bias,
    check_none,
    check_row,
    check_sizes,
    refuse_950,
)
from graph_quant.meta.operator import Result, operator
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.collective.mm_all_reduce_base import mm_all_reduce_base as reference
from torch import Tensor

LARGEST = 65535
_PACKED = (torch.int64, torch.uint64)


@operator("npu_mm_all_reduce_base", reference=reference)
def mm_all_reduce_base(
    rules: Rules,
    x1: Tensor,
    x2: Tensor,
    hcom: str,  # noqa: ARG001  (used by the reference)
    reduce_op: str,
    bias: Tensor | None,
    antiquant_scale: Tensor | None,
    antiquant_offset: Tensor | None,
    x3: Tensor | None,
    dequant_scale: Tensor | None,
    pertoken_scale: Tensor | None,
    comm_quant_scale_1: Tensor | None,
    comm_quant_scale_2: Tensor | None,
    antiquant_group_size: int,
    comm_turn: int,
    group_sizes: Sequence[int] | None,
    y_dtype: int | None,
    x1_dtype: int | None,
    x2_dtype: int | None,
    dequant_scale_dtype: int | None,
    pertoken_scale_dtype: int | None,
    comm_quant_mode: int,
    comm_mode: str | None,
) -> MatmulPlan:
    """Check a call against the documented rules and return its plan."""
    refuse_950(
        rules,
        group_sizes=group_sizes,
        y_dtype=y_dtype,
        x1_dtype=x1_dtype,
        x2_dtype=x2_dtype,
        dequant_scale_dtype=dequant_scale_dtype,
        pertoken_scale_dtype=pertoken_scale_dtype,
        comm_quant_mode=comm_quant_mode,
    )
    rules.one_of("reduce_op", reduce_op, ("sum",))
    rules.one_of("comm_turn", comm_turn, (0,))
    rules.one_of("comm_mode", comm_mode, (None, "ai_cpu"))
    rules.dtype("x1", x1, (*HALVES, torch.int8))
    check_sizes(rules, "x1", x1, x2, most=3)
    columns = x2.size(1)
    if x1.dtype == torch.int8:
        output = _check_integers(rules, x1, x2, dequant_scale, pertoken_scale, columns)
        check_none(rules, " for int8 x1", antiquant_scale=antiquant_scale, antiquant_offset=antiquant_offset)
    else:
        output = x1.dtype
        check_none(rules, f" for {x1.dtype} x1", dequant_scale=dequant_scale, pertoken_scale=pertoken_scale)
        _check_weights(rules, x1, x2, antiquant_scale, antiquant_offset, antiquant_group_size)
    _check_transport(rules, x1, comm_quant_scale_1, comm_quant_scale_2, output, columns)
    check_bias(rules, bias, (torch.int32 if x1.dtype == torch.int8 else x1.dtype,), columns)
    shape = (*x1.shape[:-1], columns)
    if x3 is not None:
        rules.dtype("x3", x3, (output,), ", as the result is")
        rules.rank("x3", x3, len(shape), why=", as the result has")
        for dim, size in enumerate(shape):
            rules.equal(f"x3.size({dim})", x3.size(dim), "the result's", size)
    return MatmulPlan((Result(shape, output),), output)


def _check_integers(
    rules: Rules, x1: Tensor, x2: Tensor, scale: Tensor | None, tokens: Tensor | None, columns: Size
) -> torch.dtype:
    rules.dtype("x2", x2, (torch.int8,), " for int8 x1")
    rules.require(scale is not None, lambda: "dequant_scale must be given for int8 x1, got None")
    assert scale is not None
    rules.require(x1.size(-1) <= LARGEST, lambda: f"x1.size(-1) must be at most {LARGEST}, got {x1.size(-1)}")
    rules.dtype(
        "dequant_scale",
        scale,
        (*_PACKED, torch.bfloat16) if tokens is None else (torch.float32, torch.bfloat16),
        "" if tokens is None else " with pertoken_scale",
    )
    check_row(rules, "dequant_scale", scale, columns)
    if tokens is not None:
        rules.dtype("pertoken_scale", tokens, (torch.float32,))
        rules.rank("pertoken_scale", tokens, 1)
        rows = x1.size(0) if x1.dim() == 2 else x1.size(0) * x1.size(1)
        rules.equal("pertoken_scale.size(0)", tokens.size(0), "the rows of x1", rows)
    return torch.bfloat16 if scale.dtype == torch.bfloat16 else torch.float16


def _check_transport(
    rules: Rules, x1: Tensor, first: Tensor | None, second: Tensor | None, output: torch.dtype, columns: Size
) -> None:
    scales = {"comm_quant_scale_1": first, "comm_quant_scale_2": second}
    if x1.dtype != torch.int8:
        check_none(rules, f" for {x1.dtype} x1", **scales)
    if first is None and second is None:
        return
    for name, scale in scales.items():
        rules.require(scale is not None, lambda: f"{name} must be given beside the other, got None")  # noqa: B023
        assert scale is not None
        rules.dtype(name, scale, (output,), ", as the result is")
        rules.rank(name, scale, 1, 2)
        if scale.dim() == 2:
            rules.equal(f"{name}.size(0)", scale.size(0), "1, for two dimensions", 1)
        rules.equal(f"{name}.size(-1)", scale.size(-1), "x2.size(1)", columns)
    assert first is not None
    assert second is not None
    rules.rank("comm_quant_scale_2", second, first.dim(), why=", as comm_quant_scale_1 has")


def _check_weights(
    rules: Rules, x1: Tensor, x2: Tensor, scale: Tensor | None, offset: Tensor | None, group_size: int
) -> None:
    if x2.dtype != torch.int8:
        rules.dtype("x2", x2, (x1.dtype, torch.int8), f" for {x1.dtype} x1")
        check_none(rules, f" for {x2.dtype} x2", antiquant_scale=scale, antiquant_offset=offset)
        return
    rules.require(scale is not None, lambda: f"antiquant_scale must be given for int8 x2 and {x1.dtype} x1, got None")
    assert scale is not None
    rules.dtype("antiquant_scale", scale, (x1.dtype,), ", as x1 is")
    for name, size in (("x2.size(0)", x2.size(0)), ("x2.size(1)", x2.size(1))):
        rules.require(size <= LARGEST, lambda: f"{name} must be at most {LARGEST}, got {size}")  # noqa: B023
    if group_size:
        _check_groups(rules, x2, scale, group_size)
    else:
        check_row(rules, "antiquant_scale", scale, x2.size(1))
    if offset is not None:
        rules.dtype("antiquant_offset", offset, (scale.dtype,), ", as antiquant_scale is")
        rules.rank("antiquant_offset", offset, scale.dim(), why=", as antiquant_scale has")
        for dim, size in enumerate(scale.shape):
            rules.equal(f"antiquant_offset.size({dim})", offset.size(dim), "antiquant_scale's", size)


def _check_groups(rules: Rules, x2: Tensor, scale: Tensor, group_size: int) -> None:
    depth = x2.size(0)
    rules.require(
        group_size % 32 == 0 and group_size >= 32,
        lambda: f"antiquant_group_size must be 0 or a multiple of 32, got {group_size}",
    )
    rules.require(
        group_size < depth, lambda: f"antiquant_group_size must be less than x2.size(0), got {group_size} and {depth}"
    )
    rules.rank("antiquant_scale", scale, 2, why=" with antiquant_group_size")
    groups = (depth + group_size - 1) // group_size
    rules.equal("antiquant_scale.size(0)", scale.size(0), "the groups of x2.size(0)", groups)
    rules.equal("antiquant_scale.size(1)", scale.size(1), "x2.size(1)", x2.size(1))

"""npu_weight_quant_batchmatmul: what may be passed, and what comes back.

x (m, k) is float16 or bfloat16. weight (k, n) is int8, or int32 that hold int4: (k, n/8), or (k/8, n) as a transposed
view, not of one int32 alone. antiquant_scale is (1,), (1, 1), (n,) or (1, n), or with antiquant_group_size a row for
each group of k, the last of which may be shorter; antiquant_offset is like it. A packed antiquant_scale is for float16
x and int8 weights in a transposed view. quant_scale, (1,), (n,) or (1, n), makes the result int8. k and n are at most
65535.

A weight may be in FRACTAL_NZ. If it holds int4, it has groups of 64 or 128, which divide k, in n a multiple of 64, and
neither operand is transposed; or it is transposed, and has a scale for each column. The result is not int8.

What Ascend 950 takes is in ``weight_quant_950``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.destination import INT4
from graph_quant.meta.matmul.weight_quant_950 import (
    check_columns,
    check_dtypes,
    check_nz,
    check_views,
    describe_weight,
)
from graph_quant.meta.matmul.weight_quant_parameters import (
    check_antiquant,
    check_antiquant_shape,
    check_packed_antiquant,
    check_quant,
    check_row,
    is_transposed,
)
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import ND, NZ, Rules, Size, guard_or_false, sym_or
from graph_quant.reference.matmul.weight_quant_batchmatmul import weight_quant_batchmatmul as reference
from torch import Tensor

LARGEST = 65535
_BLOCKS = " for int4 weights in FRACTAL_NZ"
BIASES = {torch.float16: torch.float16, torch.bfloat16: torch.float32}


@dataclass(frozen=True)
class WeightQuantPlan(Plan):
    """``packed_along_k`` if int32 weights are (k/8, n); ``narrow`` is the weight's dtype, by GE's name, on 950."""

    packed_along_k: bool
    narrow: str | None = None


@operator("npu_weight_quant_batchmatmul", reference=reference, chips=A2_A3_950)
def weight_quant_batchmatmul(
    rules: Rules,
    x: Tensor,
    weight: Tensor,
    antiquant_scale: Tensor,
    antiquant_offset: Tensor | None,
    quant_scale: Tensor | None,
    quant_offset: Tensor | None,
    bias: Tensor | None,
    antiquant_group_size: int,
    inner_precise: int,
    weight_dtype: int | None,
) -> WeightQuantPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    if rules.chip is ASCEND_950:
        parameters = antiquant_scale, antiquant_offset, bias
        rules.require(quant_scale is None, lambda: "quant_scale must be None on Ascend 950, got a tensor")
        rules.require(quant_offset is None, lambda: "quant_offset must be None on Ascend 950, got a tensor")
        rules.one_of("inner_precise", inner_precise, (0, 1))
        return _on_950(rules, x, weight, *parameters, antiquant_group_size, weight_dtype)
    rules.refuse_950(weight_dtype=weight_dtype)
    rules.dtype("x", x, (torch.float16, torch.bfloat16))
    rules.dtype("weight", weight, (torch.int8, torch.int32))
    for name, tensor in (("x", x), ("weight", weight)):
        rules.rank(name, tensor, 2)
        rules.not_empty(name, tensor)
        _plain(rules, name, tensor)
    packed_along_k, columns = _columns(rules, x, weight)
    for name, size in (("k", x.size(1)), ("n", columns), *([("m", x.size(0))] if is_transposed(x) else [])):
        why = ", x being transposed" if name == "m" else ""
        rules.require(size <= LARGEST, lambda: f"{name} must be at most {LARGEST}{why}, got {size}")  # noqa: B023
    check_antiquant(rules, x, weight, antiquant_scale, antiquant_offset)
    check_antiquant_shape(rules, x, antiquant_scale, antiquant_group_size, columns)
    if antiquant_scale.dtype == torch.int64:
        check_packed_antiquant(rules, x, weight, antiquant_scale, columns)
        rules.require(quant_scale is None, lambda: "quant_scale must be None beside a packed antiquant_scale, got one")
    check_quant(rules, quant_scale, quant_offset, columns)
    if bias is not None:
        rules.dtype("bias", bias, (BIASES[x.dtype],), f" for x of {x.dtype}")
        check_row(rules, "bias", bias, columns, one=False)
    rules.format("x", x, ND)
    if rules.format("weight", weight, ND, NZ) is NZ and weight.dtype == torch.int32:
        _check_blocks_of_int4(rules, x, weight, antiquant_scale, antiquant_group_size, columns, packed_along_k)
        rules.require(quant_scale is None, lambda: f"quant_scale must be None{_BLOCKS}, got a tensor")
    rules.one_of("inner_precise", inner_precise, (0, 1))
    output = x.dtype if quant_scale is None else torch.int8
    return WeightQuantPlan((Result((x.size(0), columns), output),), packed_along_k)


def _on_950(
    rules: Rules,
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    bias: Tensor | None,
    group_size: int,
    weight_dtype: int | None,
) -> WeightQuantPlan:
    """The plan of a call on Ascend 950."""
    rules.dtype("x", x, (torch.float16, torch.bfloat16))
    for name, tensor in (("x", x), ("weight", weight)):
        rules.rank(name, tensor, 2)
        rules.not_empty(name, tensor)
    weight_name = describe_weight(rules, weight, weight_dtype)
    _plain(rules, "weight", weight)
    packed_along_k, columns = _columns(rules, x, weight)
    check_dtypes(rules, weight_name, x, scale, offset, bias, group_size)
    check_antiquant_shape(rules, x, scale, group_size, columns)
    check_columns(rules, weight_name, scale, columns)
    check_views(rules, x, weight, scale, offset)
    if bias is not None:
        check_row(rules, "bias", bias, columns, one=False)
    rules.format("x", x, ND)
    if rules.format("weight", weight, ND, NZ) is NZ:
        check_nz(rules, weight_name, x, scale, bias, group_size, columns, packed_along_k)
    return WeightQuantPlan((Result((x.size(0), columns), x.dtype),), packed_along_k, weight_name)


def _check_blocks_of_int4(
    rules: Rules, x: Tensor, weight: Tensor, scale: Tensor, group: int, columns: Size, packed_along_k: bool
) -> None:
    """Check what aclnnWeightQuantBatchMatmulV2 demands of int4 weights in FRACTAL_NZ, and no document states."""
    if not group:
        rules.require(
            scale.numel() != 1, lambda: f"antiquant_scale must have an element for each column{_BLOCKS}, got 1"
        )
        rules.require(
            packed_along_k,
            lambda: f"weight must be a transposed view{_BLOCKS} without groups, got strides {list(weight.stride())}",
        )
        return
    rules.one_of("antiquant_group_size", group, (64, 128), _BLOCKS)
    for name, tensor, transposed in (("x", x, is_transposed(x)), ("weight", weight, packed_along_k)):
        rules.require(
            not transposed,
            lambda: f"{name} must not be a transposed view{_BLOCKS} with groups, got {list(tensor.stride())}",  # noqa: B023
        )
    rules.multiple("k", x.size(1), group, f", the group size,{_BLOCKS}")
    rules.multiple("n", columns, 64, f"{_BLOCKS} with groups")


def _plain(rules: Rules, name: str, tensor: Tensor) -> None:
    rules.require(
        not rules.is_eager or tensor.is_contiguous() or is_transposed(tensor),
        lambda: (
            f"{name} must be contiguous or a transposed view when run eagerly, got strides {list(tensor.stride())}; "
            "make it contiguous, or compile: a graph converts it"
        ),
    )


def _columns(rules: Rules, x: Tensor, weight: Tensor) -> tuple[bool, Size]:
    if weight.dtype not in (torch.int32, torch.float32):
        rules.equal("weight.size(0)", weight.size(0), "x.size(1)", x.size(1))
        return False, weight.size(1)
    held, carrier = ("int4", "int32") if weight.dtype == torch.int32 else ("float4", "float32")
    along_k = not guard_or_false(weight.size(0) == x.size(1))
    if not along_k:
        rules.require(
            weight.is_contiguous(),
            lambda: f"weight must be contiguous where it holds {held} along n, got strides {list(weight.stride())}",
        )
        return False, weight.size(1) * INT4.packing
    rules.require(
        weight.size(0) * INT4.packing == x.size(1),
        lambda: f"weight.size(0) must equal k, {x.size(1)}, or k/8 in a transposed view, got {weight.size(0)}",
    )
    rules.require(
        sym_or(weight.size(0) != 1, weight.size(1) != 1),
        lambda: (
            f"weight must be more than one {carrier} where it holds {held} along k: no stride gives its order, "
            "got [1, 1]"
        ),
    )
    rules.require(
        weight.stride(0) == 1,
        lambda: f"weight must be a transposed view where it holds {held} along k, got strides {list(weight.stride())}",
    )
    return True, weight.size(1)

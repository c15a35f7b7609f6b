"""npu_add_quant_matmul and its in-place form: what may be passed; Ascend 950 alone has a kernel.

self (m, n) is float32. x1 (m, k) is a transposed view of (k, m), x2 (k, n) is not.

======== =============================== ============================= ============================= ==================
form     x1, x2                          x1_scale                      x2_scale                      group_sizes
======== =============================== ============================= ============================= ==================
mx       float8, e4m3 and e5m2 together  float8_e8m0fnu,               float8_e8m0fnu,               [0 or 1, 0 or 1,
                                         (m, ceil(k/64), 2), a view    (ceil(k/64), n, 2)            0 or 32]
HiFloat8 x1_dtype and x2_dtype 290       float32 (1,)                  float32 (1,)                  none or zeros
======== =============================== ============================= ============================= ==================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.formats import ND
from graph_quant.meta.matmul.quant_matmul_950 import describe_operand, is_codes
from graph_quant.meta.matmul.weight_quant_parameters import is_transposed
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.matmul import add_quant_matmul as reference
from graph_quant.reference.matmul.narrow_products import BLOCK, HIFLOAT8
from torch import Tensor

_PAIR = 2 * BLOCK
_SIZES = 3


@dataclass(frozen=True)
class AddQuantPlan(Plan):
    """GE's names of the operands' dtypes, and the packed group sizes, 0 but for MX."""

    x1_name: str
    x2_name: str
    group_size: int


@operator(
    "npu_add_quant_matmul_",
    reference=reference.add_quant_matmul_,
    results=lambda _: ("summed",),
    chips=(ASCEND_950,),
)
@operator("npu_add_quant_matmul", reference=reference.add_quant_matmul, chips=(ASCEND_950,))
def add_quant_matmul(
    rules: Rules,
    summed: Tensor,
    x1: Tensor,
    x2: Tensor,
    x2_scale: Tensor,
    x1_scale: Tensor | None,
    group_sizes: Sequence[int] | None,
    x1_dtype: int | None,
    x2_dtype: int | None,
    x1_scale_dtype: int | None,
    x2_scale_dtype: int | None,
) -> AddQuantPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    one, other = describe_operand(rules, "x1", x1, x1_dtype), describe_operand(rules, "x2", x2, x2_dtype)
    is_float8 = one.startswith("float8")
    if one != HIFLOAT8 and not is_float8:
        rules.refuse(f"x1 must be float8 or HiFloat8, got {one}")
    rules.require(
        other.startswith("float8") if is_float8 else other == HIFLOAT8,
        lambda: f"x2 must be {'float8' if is_float8 else HIFLOAT8} as x1 is, got {other}",
    )
    rules.dtype("self", summed, (torch.float32,))
    for name, tensor in (("x1", x1), ("x2", x2), ("self", summed)):
        rules.rank(name, tensor, 2)
        rules.not_empty(name, tensor)
        rules.format(name, tensor, ND)
    rows, depth, columns = x1.size(0), x1.size(1), x2.size(1)
    rules.equal("x2.size(0)", x2.size(0), "x1.size(1)", depth)
    rules.shape("self", summed, (rows, columns), ("m", "n"))
    _check_views(rules, summed, x1, x2)
    if x1_scale is None:
        rules.refuse("x1_scale must be given, got None")
    groups = [0, 0, 0] if group_sizes is None else list(group_sizes)
    rules.require(len(groups) == _SIZES, lambda: f"group_sizes must have three sizes, got {groups}")
    codes = is_codes(rules, "x1_scale", x1_scale, x1_scale_dtype), is_codes(rules, "x2_scale", x2_scale, x2_scale_dtype)
    rules.require(
        codes == (is_float8, is_float8),
        lambda: f"x1_scale and x2_scale must {'both' if is_float8 else 'not'} be float8_e8m0fnu for {one}, got {codes}",
    )
    group_size = 0
    if is_float8:
        group_size = _check_mx(rules, groups, rows, depth, columns, x1_scale, x2_scale)
    else:
        rules.require(not any(groups), lambda: f"group_sizes must be None or zeros for HiFloat8, got {groups}")
        for name, scale in (("x1_scale", x1_scale), ("x2_scale", x2_scale)):
            rules.dtype(name, scale, (torch.float32,), " for HiFloat8")
            rules.shape(name, scale, (1,), ("1",))
    return AddQuantPlan((Result((rows, columns), torch.float32),), one, other, group_size)


def _check_views(rules: Rules, summed: Tensor, x1: Tensor, x2: Tensor) -> None:
    """Check the strides of an eager call; a graph converts them."""
    if not rules.is_eager:
        return
    rules.require(
        is_transposed(x1) and x1.numel() != 1,
        lambda: f"x1 must be a transposed view of (k, m) when run eagerly, got strides {list(x1.stride())}",
    )
    for name, tensor in (("x2", x2), ("self", summed)):
        rules.require(
            tensor.is_contiguous(),
            lambda: f"{name} must be contiguous when run eagerly, got strides {list(tensor.stride())}",  # noqa: B023
        )


def _check_mx(
    rules: Rules, groups: list[int], rows: Size, depth: Size, columns: Size, x1_scale: Tensor, x2_scale: Tensor
) -> int:
    rules.require(
        groups[0] in (0, 1) and groups[1] in (0, 1) and groups[2] in (0, BLOCK),
        lambda: f"group_sizes must be [0 or 1, 0 or 1, 0 or 32] for float8, got {groups}",
    )
    if not groups[2]:
        rules.multiple("k", depth, _PAIR, " where group_sizes do not say 32")
    pairs = (depth + _PAIR - 1) // _PAIR
    rules.shape("x1_scale", x1_scale, (rows, pairs, 2), ("m", "ceil(k/64)", "2"))
    rules.shape("x2_scale", x2_scale, (pairs, columns, 2), ("ceil(k/64)", "n", "2"))
    if rules.is_eager:
        is_view = x1_scale.stride(0) == 2 and x1_scale.stride(1) == 2 * x1_scale.size(0)
        rules.require(
            is_view or x1_scale.shape[:2] == (1, 1),
            lambda: f"x1_scale must be a transposed view as x1 is, got strides {list(x1_scale.stride())}",
        )
        rules.require(
            x2_scale.is_contiguous(),
            lambda: f"x2_scale must be contiguous when run eagerly, got strides {list(x2_scale.stride())}",
        )
    return (1 << 32) | (1 << 16) | BLOCK

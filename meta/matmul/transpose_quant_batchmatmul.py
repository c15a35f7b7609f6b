"""npu_transpose_quant_batchmatmul: what may be passed, and what comes back; Ascend 950 alone has a kernel.

x1 is (m, b, k), x2 (b, k, n), or (b, n, k) with perm_x2 [0, 2, 1]; the result is (m, b, n), float16 or bfloat16.

======== ================================ ============================= ==================== ====================
form     x1, x2                           x1_scale                      x2_scale             sizes
======== ================================ ============================= ==================== ====================
float8   float8, e4m3 and e5m2 together   float32 (m,)                  float32 (n,)         k of 512, n of 128,
                                                                                             perm_x2 [0, 1, 2]
mx       float8_e4m3fn                    float8_e8m0fnu (m, b,         float8_e8m0fnu,      k a multiple of 64
                                          k / 64, 2)                    as x2
HiFloat8 x1_dtype and x2_dtype 290        none                          packed (n,)
======== ================================ ============================= ==================== ====================

The kernel of HiFloat8 reads no x1_scale, which the document multiplies by: it is refused as not described, as are
results of HiFloat8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.destination import SCALAR_TYPES, describe
from graph_quant.formats import ND, NZ
from graph_quant.meta.matmul.quant_matmul_950 import HIFLOAT8_NUMBER, describe_operand
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules, Size
from graph_quant.narrow_floats import E4M3
from graph_quant.reference.matmul.narrow_products import BLOCK, HIFLOAT8
from graph_quant.reference.matmul.transpose_quant_batchmatmul import DEPTH_LAST, ROWS_FIRST, STRAIGHT
from graph_quant.reference.matmul.transpose_quant_batchmatmul import transpose_quant_batchmatmul as reference
from graph_quant.refusals import UndescribedError
from torch import Tensor

_HALVES = (torch.float16, torch.bfloat16)
_DEPTH, _COLUMNS = 512, 128
_PAIR = 2 * BLOCK


@dataclass(frozen=True)
class TransposeQuantPlan(Plan):
    """GE's names of the operands' dtypes, whether x2 is (b, n, k), the result's dtype and the packed group sizes."""

    x1_name: str
    x2_name: str
    is_transposed: bool
    output: torch.dtype
    group_size: int


@operator("npu_transpose_quant_batchmatmul", reference=reference, chips=(ASCEND_950,))
def transpose_quant_batchmatmul(
    rules: Rules,
    x1: Tensor,
    x2: Tensor,
    dtype: int,
    bias: Tensor | None,
    x1_scale: Tensor | None,
    x2_scale: Tensor | None,
    group_sizes: Sequence[int] | None,
    perm_x1: Sequence[int] | None,
    perm_x2: Sequence[int] | None,
    perm_y: Sequence[int] | None,
    batch_split_factor: int | None,
    x1_dtype: int | None,
    x2_dtype: int | None,
) -> TransposeQuantPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.require(bias is None, lambda: "bias must be None, got a tensor")
    rules.one_of("batch_split_factor", batch_split_factor, (None, 1))
    one = describe_operand(rules, "x1", x1, x1_dtype)
    other = describe_operand(rules, "x2", x2, x2_dtype)
    is_float8 = one.startswith("float8")
    if one != HIFLOAT8 and not is_float8:
        rules.refuse(f"x1 must be float8 or HiFloat8, got {one}")
    rules.require(
        other.startswith("float8") if is_float8 else other == HIFLOAT8,
        lambda: f"x2 must be {'float8' if is_float8 else HIFLOAT8} as x1 is, got {other}",
    )
    for name, tensor in (("x1", x1), ("x2", x2)):
        rules.rank(name, tensor, 3)
        rules.not_empty(name, tensor)
    if x2_scale is None:
        rules.refuse("x2_scale must be given, got None")
    is_mx = x2_scale.dtype == torch.float8_e8m0fnu
    _check_order(rules, "perm_x1", perm_x1, (ROWS_FIRST,))
    orders = (STRAIGHT, DEPTH_LAST) if is_mx or not is_float8 else (STRAIGHT,)
    is_transposed = _check_order(rules, "perm_x2", perm_x2, orders) == DEPTH_LAST
    _check_order(rules, "perm_y", perm_y, (ROWS_FIRST,))
    rows, batches, depth = x1.shape
    columns = x2.size(1 if is_transposed else 2)
    rules.equal("the batches of x2", x2.size(0), "those of x1", batches)
    rules.equal("k of x2", x2.size(2 if is_transposed else 1), "that of x1", depth)
    output = _find_output(rules, dtype, one)
    group_size = _check_groups(rules, group_sizes, is_mx)
    if is_mx:
        _check_mx(rules, (one, other), x1, x2, x1_scale, x2_scale, columns, is_transposed)
    else:
        _check_vectors(rules, is_float8, rows, depth, columns, x1_scale, x2_scale)
    rules.format("x1", x1, ND)
    rules.format("x2", x2, ND, *((NZ,) if is_mx else ()))
    result = Result((rows, batches, columns), output)
    return TransposeQuantPlan((result,), one, other, is_transposed, output, group_size)


def _check_order(
    rules: Rules, name: str, perm: Sequence[int] | None, allowed: Sequence[tuple[int, ...]]
) -> tuple[int, ...]:
    order = allowed[0] if perm is None else tuple(perm)
    words = " or ".join(str(list(choice)) for choice in allowed)
    rules.require(order in allowed, lambda: f"{name} should be {words}, got {list(order)}")
    return order


def _find_output(rules: Rules, requested: int | torch.dtype, name: str) -> torch.dtype:
    if requested == HIFLOAT8_NUMBER and name == HIFLOAT8:
        raise UndescribedError(f"{rules.op}: results of HiFloat8 are not described for Ascend 950 yet")
    output = SCALAR_TYPES.get(requested) if isinstance(requested, int) else requested
    if output not in _HALVES:
        rules.refuse(f"dtype must be {' or '.join(map(str, _HALVES))}, got {describe(requested)}")
    return output


def _check_groups(rules: Rules, sizes: Sequence[int] | None, is_mx: bool) -> int:
    groups = [0, 0, 0] if sizes is None else list(sizes)
    rules.require(len(groups) == len(ROWS_FIRST), lambda: f"group_sizes must have three sizes, got {groups}")
    if not is_mx:
        rules.require(not any(groups), lambda: f"group_sizes must be None or zeros but for MX scales, got {groups}")
        return 0
    rules.require(
        groups[0] in (0, 1) and groups[1] in (0, 1) and groups[2] == BLOCK,
        lambda: f"group_sizes must be [0 or 1, 0 or 1, 32] for MX scales, got {groups}",
    )
    return (groups[0] << 32) | (groups[1] << 16) | groups[2]


def _check_mx(
    rules: Rules,
    names: tuple[str, str],
    x1: Tensor,
    x2: Tensor,
    x1_scale: Tensor | None,
    x2_scale: Tensor,
    columns: Size,
    is_transposed: bool,
) -> None:
    why = " for scales of float8_e8m0fnu"
    rules.require(
        names == (E4M3.name, E4M3.name), lambda: f"x1 and x2 must be float8_e4m3fn{why}, got {' and '.join(names)}"
    )
    if x1_scale is None:
        rules.refuse(f"x1_scale must be given{why}, got None")
    rules.dtype("x1_scale", x1_scale, (torch.float8_e8m0fnu,), ", as x2_scale is")
    rows, batches, depth = x1.shape
    rules.multiple("k", depth, _PAIR, why)
    pairs = depth // _PAIR
    rules.shape("x1_scale", x1_scale, (rows, batches, pairs, 2), ("m", "b", "k / 64", "2"))
    sizes = (columns, pairs) if is_transposed else (pairs, columns)
    labels = ("n", "k / 64") if is_transposed else ("k / 64", "n")
    rules.shape("x2_scale", x2_scale, (x2.size(0), *sizes, 2), ("b", *labels, "2"))


def _check_vectors(
    rules: Rules, is_float8: bool, rows: Size, depth: Size, columns: Size, x1_scale: Tensor | None, x2_scale: Tensor
) -> None:
    """Scales of rows and columns, or packed ones of columns for HiFloat8."""
    if not is_float8:
        if x1_scale is not None:
            raise UndescribedError(
                f"{rules.op}: x1_scale beside HiFloat8, which the kernel does not read, is not described for Ascend 950"
            )
        rules.dtype("x2_scale", x2_scale, (torch.int64, torch.uint64), " for HiFloat8")
        rules.shape("x2_scale", x2_scale, (columns,), ("n",))
        return
    if x1_scale is None:
        rules.refuse("x1_scale must be given for float8, got None")
    rules.equal("k", depth, "512 for float8 with float32 scales", _DEPTH)
    rules.equal("n", columns, "128 for float8 with float32 scales", _COLUMNS)
    for name, scale, size, label in (("x1_scale", x1_scale, rows, "m"), ("x2_scale", x2_scale, columns, "n")):
        rules.dtype(name, scale, (torch.float32,), " or torch.float8_e8m0fnu")
        rules.shape(name, scale, (size,), (label,))

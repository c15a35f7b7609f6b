"""npu_quant_matmul: what may be passed, and what comes back.

x1 (…, m, k) and x2 (…, k, n) are int8 of two to six dimensions whose leading ones broadcast, or int32 holding int4:
x1 (…, m, k/8), no transposed view, and x2 (k, n/8), or (k/8, n) as one; neither is empty. scale and offset are (1,) or
(n,), pertoken_scale is (m,), bias (n,) or, for results of three dimensions, (batch, 1, n). The contiguous
dimension, k of x1, n of x2 or, in a transposed view, the other one, is at most 65535, except for int8 with
pertoken_scale, which the document limits as well and the device does not.

x2 may be in FRACTAL_NZ if neither k nor n is 1; with int4 only beside a float scale without pertoken_scale, because
torch_npu passes other int4 weights to a function that takes row-major ones alone.
Which dtypes go together is the table in ``graph_quant.meta.matmul.dtypes``; only int8 results take an offset.
Scales for groups of k, and int4 weights for int8 rows, are in ``graph_quant.meta.matmul.quant_matmul_groups``. What
Ascend 950 takes is in ``graph_quant.meta.matmul.quant_matmul_950``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.destination import BFLOAT16, FLOAT16, FLOAT32, INT8, INT32, Destination
from graph_quant.meta.matmul.dtypes import accepts_for
from graph_quant.meta.matmul.quant_matmul_950 import check_call, check_operands, is_codes
from graph_quant.meta.matmul.quant_matmul_groups import check_group_sizes, check_groups, form_of
from graph_quant.meta.matmul.shapes import broadcast, check_bias, check_depth, check_inner, is_transposed
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import ND, NZ, Rules, Size, statically_known_true
from graph_quant.reference.matmul.quant_matmul import quant_matmul as reference
from graph_quant.reference.matmul.quant_matmul_950 import NarrowForm
from graph_quant.reference.matmul.quant_matmul_groups import WHOLE
from graph_quant.refusals import UndescribedError
from torch import Tensor


@dataclass(frozen=True)
class QuantMatmulPlan(Plan):
    """``packs_scale`` if a float scale must be packed first; ``group_size`` is the node's attribute.

    ``narrow`` is the form of a call on Ascend 950.
    """

    output: Destination
    int4: bool
    packed_along_k: bool
    packs_scale: bool
    form: str = WHOLE
    group_size: int = 0
    narrow: NarrowForm | None = None


@operator("npu_quant_matmul", reference=reference, chips=A2_A3_950)
def quant_matmul(
    rules: Rules,
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    pertoken_scale: Tensor | None,
    bias: Tensor | None,
    output_dtype: torch.dtype | int | None,
    x1_dtype: int | None,
    x2_dtype: int | None,
    pertoken_scale_dtype: int | None,
    scale_dtype: int | None,
    group_sizes: Sequence[int] | None,
    y_scale: Tensor | None,
) -> QuantMatmulPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    if rules.chip is ASCEND_950:
        sizes = check_operands(rules, x1, x2, x1_dtype, x2_dtype)
        output = rules.destination("output_dtype", output_dtype, (INT8, FLOAT16, BFLOAT16, FLOAT32, INT32))
        if y_scale is not None:
            raise UndescribedError(f"{rules.op}: y_scale is not described for Ascend 950 yet")
        codes = (
            is_codes(rules, "scale", scale, scale_dtype),
            is_codes(rules, "pertoken_scale", pertoken_scale, pertoken_scale_dtype),
        )
        call = (x1, x2, scale, offset, pertoken_scale, bias)
        narrow, groups = check_call(rules, sizes, *call, output, codes, group_sizes)
        result = Result(sizes.shape, output.storage)
        is_int4 = x1.dtype == torch.int32
        return QuantMatmulPlan((result,), output, is_int4, False, False, group_size=groups, narrow=narrow)
    rules.refuse_950(
        x1_dtype=x1_dtype,
        x2_dtype=x2_dtype,
        pertoken_scale_dtype=pertoken_scale_dtype,
        scale_dtype=scale_dtype,
        y_scale=y_scale,
    )
    output = rules.destination("output_dtype", output_dtype, (INT8, FLOAT16, BFLOAT16, INT32))
    rules.dtype("x1", x1, (torch.int8, torch.int32))
    rules.dtype("x2", x2, (torch.int32, x1.dtype) if x1.dtype == torch.int8 else (x1.dtype,), f" for x1 {x1.dtype}")
    rules.rank("x1", x1, 2, 6)
    rules.rank("x2", x2, 2, 6)
    rules.not_empty("x1", x1)
    rules.not_empty("x2", x2)
    if x2.dtype == torch.int32:
        _check_in_rows(rules, x1)
    form = form_of(x1, x2, scale, pertoken_scale)
    group_size = check_group_sizes(rules, group_sizes, form, scale)
    if form != WHOLE:
        size = check_groups(rules, form, x1, x2, scale, offset, pertoken_scale, bias, output)
        return QuantMatmulPlan((Result(size, output.storage),), output, True, False, False, form, group_size)
    int4 = x1.dtype == torch.int32
    if int4:
        rules.rank("x2", x2, 2, why=" when it holds int4")
    packed_along_k, columns = check_depth(rules, x1, x2, int4)
    if int4 or pertoken_scale is None:
        check_inner(rules, "x1", x1)
        check_inner(rules, "x2", x2)
    shape = (*broadcast(rules, x1.shape[:-2], x2.shape[:-2]), x1.size(-2), columns)
    accepts = accepts_for(rules, output, int4, pertoken_scale)
    why = f" for {output.storage} output{'' if pertoken_scale is None else ' with pertoken_scale'}"
    rules.dtype("scale", scale, accepts.scale, why)
    rules.rank("scale", scale, 1)
    rules.one_or("scale.size(0)", scale.size(0), "n", columns)
    if offset is not None:
        rules.require(output is INT8, lambda: f"offset is for torch.int8 output, got output_dtype {output.storage}")
        rules.dtype("offset", offset, (torch.float32,))
        rules.rank("offset", offset, 1)
        rules.one_or("offset.size(0)", offset.size(0), "n", columns)
    if pertoken_scale is not None:
        rules.dtype("pertoken_scale", pertoken_scale, (torch.float32,))
        rules.rank("pertoken_scale", pertoken_scale, 1)
        rules.equal("pertoken_scale.size(0)", pertoken_scale.size(0), "m", x1.size(-2))
    if bias is not None:
        rules.dtype("bias", bias, accepts.bias, why)
        check_bias(rules, bias, shape, int4)
    packs_scale = scale.dtype == torch.float32 and torch.int64 in accepts.scale
    _check_format(rules, x1, x2, columns, int4, packs_scale)
    return QuantMatmulPlan((Result(shape, output.storage),), output, int4, packed_along_k, packs_scale)


def _check_format(rules: Rules, x1: Tensor, x2: Tensor, columns: Size, int4: bool, packs_scale: bool) -> None:
    rules.format("x1", x1, ND)
    why = " when it holds int4, but for a float scale without pertoken_scale"
    allowed, why = ((ND, NZ), "") if not int4 or packs_scale else ((ND,), why)
    if rules.format("x2", x2, *allowed, why=why) is NZ:
        for name, size in (("k", x2.size(-2)), ("n", columns)):
            rules.require(size != 1, lambda: f"{name} must not be 1 where x2 is in FRACTAL_NZ, got 1")  # noqa: B023


def _check_in_rows(rules: Rules, x1: Tensor) -> None:
    is_number = statically_known_true(x1.size(-1) * x1.size(-2) == 1)
    rules.require(
        is_number or not is_transposed(x1),
        lambda: f"x1 must not be a transposed view beside int4 x2, got strides {list(x1.stride())}",
    )

"""npu_quant_matmul_all_to_all: argument rules and results on A2.

x1 (bs, h) and x2 (h, n) are int8 with per-row and per-column float32 scales; the product in y_dtype is redistributed to
(bs * ranks, n / ranks). A3 has no kernel. npu_all_to_all_quant_matmul, which on A2 quantises floating-point inputs, is
not supported.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.chip import is_a3
from graph_quant.destination import BFLOAT16, FLOAT16
from graph_quant.meta.collective.all_to_all_matmul import RANKS
from graph_quant.meta.collective.matmul_rules import MatmulPlan, check_bias, check_none, refuse_950
from graph_quant.meta.operator import Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.collective.all_to_all_matmul import quant_matmul_all_to_all as reference
from torch import Tensor

_BY_ROW, _BY_COLUMN = 3, 2


@operator("npu_quant_matmul_all_to_all", reference=reference)
def quant_matmul_all_to_all(
    rules: Rules,
    x1: Tensor,
    x2: Tensor,
    hcom: str,  # noqa: ARG001  (used by the reference)
    world_size: int,
    bias: Tensor | None,
    x1_scale: Tensor | None,
    x2_scale: Tensor | None,
    common_scale: Tensor | None,
    x1_offset: Tensor | None,
    x2_offset: Tensor | None,
    x1_quant_mode: int | None,
    x2_quant_mode: int | None,
    common_quant_mode: int | None,
    group_sizes: Sequence[int] | None,
    all2all_axes: Sequence[int] | None,
    comm_quant_dtype: int | None,
    x1_dtype: int | None,
    x2_dtype: int | None,
    x1_scale_dtype: int | None,
    x2_scale_dtype: int | None,
    output_scale_dtype: int | None,
    comm_scale_dtype: int | None,
    y_dtype: int | None,
    comm_mode: str | None,
) -> MatmulPlan:
    """Check a call against the documented rules and return its plan."""
    rules.require(not is_a3(), lambda: "only Atlas A2 and Ascend 950 have it, got Atlas A3")
    offsets = {"common_scale": common_scale, "x1_offset": x1_offset, "x2_offset": x2_offset}
    check_none(rules, ", as this version has no use for it", **offsets)
    dtypes = {"x1_dtype": x1_dtype, "x2_dtype": x2_dtype, "x1_scale_dtype": x1_scale_dtype}
    dtypes |= {"x2_scale_dtype": x2_scale_dtype, "output_scale_dtype": output_scale_dtype}
    refuse_950(rules, **dtypes, comm_scale_dtype=comm_scale_dtype, comm_quant_dtype=comm_quant_dtype)
    rules.require(not group_sizes, lambda: f"group_sizes is for Ascend 950, leave it out on A2, got {group_sizes}")
    rules.one_of("x1_quant_mode", x1_quant_mode, (None, _BY_ROW), " on A2")
    rules.one_of("x2_quant_mode", x2_quant_mode, (None, _BY_COLUMN), " on A2")
    rules.one_of("common_quant_mode", common_quant_mode, (None, 0))
    rules.one_of("all2all_axes", list(all2all_axes or ()), ([], [-1, -2]))
    rules.one_of("comm_mode", comm_mode, (None, "ai_cpu", "aiv"), " on A2")
    rules.one_of("world_size", world_size, RANKS)
    for name, matrix in (("x1", x1), ("x2", x2)):
        rules.dtype(name, matrix, (torch.int8,), " on A2")
        rules.rank(name, matrix, 2)
        rules.not_empty(name, matrix)
        rules.require(
            matrix.is_contiguous(),
            lambda: f"{name} must be contiguous, got strides {list(matrix.stride())}",  # noqa: B023
        )
    rules.equal("x2.size(0)", x2.size(0), "x1.size(1)", x1.size(1))
    depth, columns = x1.size(1), x2.size(1)
    rules.require(depth <= 65535, lambda: f"x1.size(1) must be at most 65535, got {depth}")
    rules.require(
        columns % world_size == 0,
        lambda: f"x2.size(1) must be a multiple of world_size, got {columns} and {world_size}",
    )
    _check_scale(rules, "x1_scale", x1_scale, "x1.size(0)", x1.size(0))
    _check_scale(rules, "x2_scale", x2_scale, "x2.size(1)", columns)
    output = rules.destination("y_dtype", y_dtype, (FLOAT16, BFLOAT16)).storage
    check_bias(rules, bias, (output, torch.float32), columns, f" for {output} results")
    return MatmulPlan((Result((x1.size(0) * world_size, columns // world_size), output),), output)


def _check_scale(rules: Rules, name: str, scale: Tensor | None, size_name: str, size: int) -> None:
    rules.require(scale is not None, lambda: f"{name} must be given, got None")
    assert scale is not None
    rules.dtype(name, scale, (torch.float32,))
    rules.rank(name, scale, 1)
    rules.equal(f"{name}.size(0)", scale.size(0), size_name, size)

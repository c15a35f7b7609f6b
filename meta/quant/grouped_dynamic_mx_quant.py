"""npu_grouped_dynamic_mx_quant: what may be passed, and what comes back. Only Ascend 950 has it.

x is a matrix of float16 or bfloat16, group_index the ends of groups of its rows in int32. Blocks of 32 rows of a group
share a scale. scale_alg is 0 or, for float8, 1; 2 and dst_type_max are not described yet.
"""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.meta.operator import Result, operator
from graph_quant.meta.quant.dynamic_mx_quant import MxPlan, check_rounding, find_target, stored_values
from graph_quant.meta.rules import Rules
from graph_quant.reference.quant.grouped_dynamic_mx_quant import grouped_dynamic_mx_quant as reference
from graph_quant.reference.quant.mx_blocks import BY_MANTISSA, OCP, MxRule
from graph_quant.refusals import UndescribedError
from torch import Tensor

_BLOCK = 32


@operator("npu_grouped_dynamic_mx_quant", reference=reference, chips=(ASCEND_950,))
def grouped_dynamic_mx_quant(
    rules: Rules,
    x: Tensor,
    group_index: Tensor,
    round_mode: str,
    dst_type: int | torch.dtype,
    blocksize: int,
    scale_alg: int | None,
    dst_type_max: float | None,
) -> MxPlan:
    """The plan of a call that the documents and the kernel's checks allow; any other call is refused."""
    rules.dtype("x", x, (torch.float16, torch.bfloat16))
    rules.rank("x", x, 2)
    rules.dtype("group_index", group_index, (torch.int32,))
    rules.rank("group_index", group_index, 1)
    rules.at_least("group_index.size(0)", group_index.size(0), 1)
    rules.one_of("blocksize", blocksize, (_BLOCK,))
    target = find_target(rules, "dst_type", dst_type)
    algorithm = OCP if scale_alg is None else scale_alg
    if dst_type_max or (algorithm == BY_MANTISSA and target.dtype is None):
        raise UndescribedError(f"{rules.op}: scale_alg 2 and dst_type_max are not described yet, got {scale_alg}")
    check_rounding(rules, target, round_mode, algorithm)
    y = stored_values(rules, x.shape, target, "x")
    pairs = x.size(0) // (2 * _BLOCK) + group_index.size(0)
    return MxPlan((y, Result((pairs, x.size(1), 2), torch.uint8)), MxRule(target, algorithm, round_mode))

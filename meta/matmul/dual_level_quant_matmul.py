"""npu_dual_level_quant_matmul: what may be passed, and what comes back; Ascend 950 alone has a kernel.

x1 (m, k/2), int8 or uint8, and x2 (n, k/2), int8 in FRACTAL_NZ, hold two float4_e2m1 to a byte. Scales of level 0 are
float32, (m, ceil(k/512)) and (ceil(k/512), n), those of level 1 codes of float8_e8m0fnu, (m, ceil(k/64), 2) and
(n, ceil(k/64), 2). The bias is float32 (n,), and the result float16 or bfloat16.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.destination import SCALAR_TYPES, describe
from graph_quant.formats import ND, NZ
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.matmul.dual_level_quant_matmul import LEVEL0, PAIR
from graph_quant.reference.matmul.dual_level_quant_matmul import dual_level_quant_matmul as reference
from torch import Tensor

_HALVES = (torch.float16, torch.bfloat16)
_CODES = (torch.uint8, torch.float8_e8m0fnu)


@dataclass(frozen=True)
class DualLevelPlan(Plan):
    """``output`` is the dtype of the result."""

    output: torch.dtype


@operator("npu_dual_level_quant_matmul", reference=reference, chips=(ASCEND_950,))
def dual_level_quant_matmul(
    rules: Rules,
    x1: Tensor,
    x2: Tensor,
    x1_level0_scale: Tensor,
    x2_level0_scale: Tensor,
    x1_level1_scale: Tensor,
    x2_level1_scale: Tensor,
    bias: Tensor | None,
    output_dtype: int | torch.dtype,
) -> DualLevelPlan:
    """The plan of a call that the documents and the kernel's checks allow; any other call is refused."""
    rules.dtype("x1", x1, (torch.int8, torch.uint8), ", two float4 to a byte")
    rules.dtype("x2", x2, (torch.int8,), ", two float4 to a byte")
    for name, tensor in (("x1", x1), ("x2", x2)):
        rules.rank(name, tensor, 2)
        rules.not_empty(name, tensor)
    rules.equal("x2.size(1)", x2.size(1), "x1.size(1)", x1.size(1))
    rows, columns, depth = x1.size(0), x2.size(0), 2 * x1.size(1)
    groups, pairs = (depth + LEVEL0 - 1) // LEVEL0, (depth + PAIR - 1) // PAIR
    tensors = {"x1": x1, "x2": x2}
    for name, scale, shape, labels in (
        ("x1_level0_scale", x1_level0_scale, (rows, groups), ("m", "ceil(k/512)")),
        ("x2_level0_scale", x2_level0_scale, (groups, columns), ("ceil(k/512)", "n")),
        ("x1_level1_scale", x1_level1_scale, (rows, pairs, 2), ("m", "ceil(k/64)", "2")),
        ("x2_level1_scale", x2_level1_scale, (columns, pairs, 2), ("n", "ceil(k/64)", "2")),
    ):
        rules.dtype(name, scale, (torch.float32,) if "level0" in name else _CODES)
        rules.shape(name, scale, shape, labels)
        tensors[name] = scale
    if bias is not None:
        rules.dtype("bias", bias, (torch.float32,))
        rules.shape("bias", bias, (columns,), ("n",))
        tensors["bias"] = bias
    for name, tensor in tensors.items():
        rules.require(
            not rules.is_eager or tensor.is_contiguous(),
            lambda: f"{name} must be contiguous when run eagerly, got strides {list(tensor.stride())}",  # noqa: B023
        )
    output = SCALAR_TYPES.get(output_dtype) if isinstance(output_dtype, int) else output_dtype
    if output not in _HALVES:
        rules.refuse(f"output_dtype must be {' or '.join(map(str, _HALVES))}, got {describe(output_dtype)}")
    rules.format("x1", x1, ND)
    rules.format("x2", x2, NZ)
    return DualLevelPlan((Result((rows, columns), output),), output)

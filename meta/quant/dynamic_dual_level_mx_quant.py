"""npu_dynamic_dual_level_mx_quant: what may be passed, and what comes back. Only Ascend 950 has it.

input is float16 or bfloat16 of one to seven dimensions, not empty, the last of them even. The document does not support
smooth_scale.
"""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.quant.dynamic_mx_quant import stored_scales, stored_values
from graph_quant.meta.rules import Rules
from graph_quant.narrow_floats import E2M1, MODES
from graph_quant.reference.quant.dynamic_dual_level_mx_quant import dynamic_dual_level_mx_quant as reference
from torch import Tensor

_WIDE, _BLOCK = 512, 32


@operator("npu_dynamic_dual_level_mx_quant", reference=reference, chips=(ASCEND_950,))
def dynamic_dual_level_mx_quant(
    rules: Rules,
    input: Tensor,  # noqa: A002
    smooth_scale: Tensor | None,
    round_mode: str,
) -> Plan:
    """The plan of a call that the documents and the kernel's checks allow; any other call is refused."""
    rules.dtype("input", input, (torch.float16, torch.bfloat16))
    rules.rank("input", input, 1, 7)
    rules.not_empty("input", input)
    rules.require(smooth_scale is None, lambda: "smooth_scale must be None: the document does not support it")
    rules.one_of("round_mode", round_mode, MODES)
    y = stored_values(rules, input.shape, E2M1)
    wide = Result((*input.shape[:-1], (input.size(-1) + _WIDE - 1) // _WIDE), torch.float32)
    return Plan((y, wide, Result(stored_scales(input.shape, -1, _BLOCK), torch.uint8)))

"""npu_convert_weight_to_int4pack: what may be passed, and what comes back.

weight is int32 of two dimensions, or of three for experts, contiguous, its last dimension a multiple of eight. Eight
elements become one int32. The documents speak of two dimensions, torch_npu and the device take three as well.
"""

from __future__ import annotations

import torch
from graph_quant.destination import INT4
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.matmul.convert_weight_to_int4pack import convert_weight_to_int4pack as reference
from torch import Tensor


@operator("npu_convert_weight_to_int4pack", reference=reference)
def convert_weight_to_int4pack(rules: Rules, weight: Tensor, _inner_k_tiles: int) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("weight", weight, (torch.int32,))
    rules.rank("weight", weight, 2, 3)
    rules.not_empty("weight", weight)
    width = weight.size(-1)
    rules.require(
        width % INT4.packing == 0, lambda: f"weight.size(-1) must be a multiple of {INT4.packing}, got {width}"
    )
    rules.require(weight.is_contiguous(), lambda: f"weight must be contiguous, got strides {list(weight.stride())}")
    return Plan((Result((*weight.shape[:-1], width // INT4.packing), torch.int32),))

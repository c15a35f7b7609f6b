"""Shape and dtype inference for the quantisation operators, and the rules of what may be passed to them.

Each module's ``check`` states the rules and returns how the call is carried out; the inference here, the
lowering in ``graph_quant.converters`` and eager execution all ask it.
"""

from __future__ import annotations

import torch
from graph_quant.meta import (
    dynamic_quant,
    dynamic_quant_asymmetric,
    format_cast,
    group_quant,
    quant_matmul,
    quantize,
    trans_quant_param,
)

OPERATORS = {
    "npu_group_quant": group_quant,
    "npu_quantize": quantize,
    "npu_trans_quant_param": trans_quant_param,
    "npu_dynamic_quant_asymmetric": dynamic_quant_asymmetric,
    "npu_dynamic_quant": dynamic_quant,
    "npu_quant_matmul": quant_matmul,
    "npu_format_cast": format_cast,
}

_libraries: list[torch.library.Library] = []


def register() -> None:
    """Replaces torch_npu's own inference for fake and meta tensors. Calling it again changes nothing."""
    if _libraries:
        return
    library = torch.library.Library("npu", "IMPL")
    for name, operator in OPERATORS.items():
        torch.library.register_fake(f"npu::{name}", operator.infer, lib=library, allow_override=True)
    _libraries.append(library)

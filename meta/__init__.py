"""Shape and dtype inference for the quantisation operators, and the rules of what may be passed to them.

Each module's ``check`` states the rules and returns how the call is carried out; the inference here, the
lowering in ``graph_quant.converters`` and eager execution all ask it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from graph_quant.meta import (
    chip,
    dynamic_quant,
    dynamic_quant_asymmetric,
    format_cast,
    group_quant,
    quant_matmul,
    quantize,
    trans_quant_param,
)
from torch_npu.op_plugin.meta import _meta_registrations

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
        infer = chip.or_upstream(operator.infer, _upstream(name))
        torch.library.register_fake(f"npu::{name}", infer, lib=library, allow_override=True)
    _libraries.append(library)


def _upstream(name: str) -> Callable[..., Any] | None:
    """torch_npu's own inference, which it calls by the operator's name with or without a suffix."""
    found: Callable[..., Any] | None = getattr(_meta_registrations, f"{name}_meta", None)
    return found or getattr(_meta_registrations, name, None)


def unregister() -> None:
    """Gives the operators back to torch_npu's own inference."""
    while _libraries:
        _libraries.pop()._destroy()

"""Shape and dtype inference for the quantisation operators, and the rules of what may be passed to them.

Each module's ``check`` states the rules and returns how the call is carried out; the inference here, the
lowering in ``graph_quant.converters`` and eager execution all ask it. A module that names its ``OPERATOR``
is found by that.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from graph_quant import discovery
from graph_quant.meta import chip
from torch_npu.op_plugin.meta import _meta_registrations

OPERATORS: dict[str, ModuleType] = {module.OPERATOR: module for module in discovery.operators(__name__)}

_libraries: list[torch.library.Library] = []


def register() -> None:
    """Replaces torch_npu's own inference for fake and meta tensors. Calling it again changes nothing."""
    if _libraries:
        return
    library = torch.library.Library("npu", "IMPL")
    for name, operator in OPERATORS.items():
        infer = chip.or_upstream(operator.infer, upstream(name))
        torch.library.register_fake(f"npu::{name}", infer, lib=library, allow_override=True)
    _libraries.append(library)


def upstream(name: str) -> Callable[..., Any] | None:
    """torch_npu's own inference, which it calls by the operator's name with or without a suffix."""
    found: Callable[..., Any] | None = getattr(_meta_registrations, f"{name}_meta", None)
    return found or getattr(_meta_registrations, name, None)


def unregister() -> None:
    """Gives the operators back to torch_npu's own inference."""
    while _libraries:
        _libraries.pop()._destroy()

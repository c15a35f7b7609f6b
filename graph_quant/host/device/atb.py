"""Operators of the ATB library, which comes with CANN: refused by name unless a package defines them."""

from collections.abc import Callable
from typing import Any

import torch


def refuse_by_name() -> None:
    """Replace torch_npu's functions, which end in an OSError without a message, by ones that say what is missing."""
    import torch_npu
    from torch_npu.op_plugin.atb import _atb_ops

    if _atb_ops.NNAL_EX is None:
        return
    # Engines call it at start, to load ATB early: what exists here is registered already.
    _atb_ops._register_atb_extensions = lambda: None
    names_of = ((torch_npu, _atb_ops.API_LIST), (_atb_ops.ATB_MODULE, _atb_ops.ATB_API_LIST))
    for module, names in (*names_of, (_atb_ops, (*_atb_ops.API_LIST, *_atb_ops.ATB_API_LIST))):
        for name in names:
            setattr(module, name, _call_or_refuse(name))


def _call_or_refuse(name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        operator = getattr(torch.ops.atb, name, None)
        if operator is None:
            raise NotImplementedError(
                f"atb::{name} cannot run on the host NPU: it has no reference in graph_quant and needs an NPU with CANN"
            )
        return operator(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call

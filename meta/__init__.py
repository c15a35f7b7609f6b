"""What may be passed to an operator and what comes out: a record each, in the folder of its family.

The records stand in place of torch_npu's own inference for fake and meta tensors, and serve eager calls of CPU
tensors. Other packages bring records of their own through the entry point group ``graph_quant.operators``.
"""

from __future__ import annotations

# First: where nobody has loaded torch yet, it brings torch_npu, and that registers the records.
import torch  # noqa: F401

# isort: split
from graph_quant.meta.execution import execute
from graph_quant.meta.operator import (
    NODES,
    RECORDS,
    Operator,
    Plan,
    Refusal,
    Result,
    full,
    operator,
    reference_only,
)
from graph_quant.meta.registration import load, register, unregister, upstream
from graph_quant.meta.rules import Rules

__all__ = [
    "NODES",
    "RECORDS",
    "Operator",
    "Plan",
    "Refusal",
    "Result",
    "Rules",
    "execute",
    "full",
    "load",
    "operator",
    "reference_only",
    "register",
    "unregister",
    "upstream",
]

"""The records of operators: the rules of a call, its results without values, its reference and its GE node.

Records are in the folders of their families. They replace torch_npu's meta functions for fake and meta tensors, and are
the kernels of CPU tensors. Other packages add records through the entry point group ``graph_quant.operators``.
"""

from __future__ import annotations

# First: importing torch loads torch_npu, which registers the records.
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
    require_described,
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
    "require_described",
    "unregister",
    "upstream",
]

"""Operators and GE nodes without a kernel on the host."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ..ge import Node, Source, sources_of
from ..host.engine import missing_kernels
from ..start.compiling import source_of
from .findings import DryRunFinding


def missing_ge_kernels(ge_graph: Any) -> list[DryRunFinding]:
    """Types of GE nodes without a host kernel, each with the line of its first node."""
    first: dict[str, Node] = {}
    for node in missing_kernels(ge_graph, sources_of(ge_graph)):
        first.setdefault(node.type, node)
    return [DryRunFinding(kind, _location(node.source)) for kind, node in first.items()]


def missing_eager_kernels(gm: fx.GraphModule) -> list[DryRunFinding]:
    """Operators of torch_npu in a captured graph that the host cannot compute eagerly."""
    from ..meta import RECORDS

    findings: dict[str, DryRunFinding] = {}
    for node in gm.graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "npu":
            continue
        name = node.target._schema.name + (
            f".{node.target._schema.overload_name}" * bool(node.target._schema.overload_name)
        )
        record = RECORDS.get(name)
        if record is None or record.reference is None:
            findings.setdefault(name, DryRunFinding(name, _location(source_of(node))))
    return list(findings.values())


def _location(source: Source) -> str:
    return f"{source.file}:{source.line}" if source.file else ""

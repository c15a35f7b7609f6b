"""Errors of graphs on the host. They name the GE node, its FX node and the Python line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...refusals import Refusal

if TYPE_CHECKING:
    from ...ge import Node


class GraphError(RuntimeError):
    """A GE graph that the host cannot import or run."""


class UnsupportedGraphError(GraphError):
    """The graph holds operators without a host kernel; all of them are named, and the chip unless it is A2 or A3."""

    def __init__(self, graph: str, nodes: Sequence[Node], chip: str = "") -> None:
        self.nodes = tuple(nodes)
        types = sorted({node.type for node in nodes})
        listed = "\n".join(f"  {node.describe()}" for node in nodes)
        on_chip = f" on {chip}" if chip else ""
        super().__init__(f"{graph}: no host kernel for {', '.join(types)}{on_chip}\n{listed}")


class NodeError(GraphError):
    """A kernel refused its inputs or failed."""

    def __init__(self, node: Node, cause: BaseException) -> None:
        self.node = node
        super().__init__(f"{node.describe()}: {cause}")


class RefusedNodeError(NodeError, Refusal):
    """A kernel refused its inputs by a rule, which is the first line of the message."""

    def __init__(self, node: Node, cause: Refusal) -> None:
        Refusal.__init__(self, f"{cause}\n{node.describe()}", cause.code)
        self.node = node


def node_error(node: Node, cause: BaseException) -> NodeError:
    """The error of a node; a `Refusal` where its cause is one."""
    return RefusedNodeError(node, cause) if isinstance(cause, Refusal) else NodeError(node, cause)


class NeedsNpuError(RuntimeError):
    """A TorchAir option that only a device supports."""

    def __init__(self, what: str, instead: str = "") -> None:
        super().__init__(f"{what} needs an NPU; this process runs on the host" + (f" ({instead})" if instead else ""))

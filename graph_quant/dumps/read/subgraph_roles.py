"""Roles of called graphs, and finding the callers of graphs that a format does not state."""

from __future__ import annotations

from typing import Any

# The roles of the graphs that a node type calls, in order; the last repeats.
ROLES = {
    "PartitionedCall": ("f",),
    "StatefulPartitionedCall": ("f",),
    "If": ("then_branch", "else_branch"),
    "StatelessIf": ("then_branch", "else_branch"),
    "_If": ("then_branch", "else_branch"),
    "While": ("cond", "body"),
    "StatelessWhile": ("cond", "body"),
    "_While": ("cond", "body"),
    "For": ("body",),
    "Case": ("branches",),
    "StatelessCase": ("branches",),
    "higher_order.cond": ("then_branch", "else_branch"),
    "higher_order.while_loop": ("cond", "body"),
}


def role_name(op_type: str, index: int, several: bool) -> str:
    """The role of the graph at ``index`` for a node of this type."""
    roles = ROLES.get(op_type, ("graph",))
    if index < len(roles) - 1 or (index == len(roles) - 1 and not (several and len(roles) == 1)):
        return roles[index]
    return f"{roles[-1]}{index}"


def assign_calls(graphs: list[Any]) -> list[str]:
    """Assign graphs to the nodes that call them, by GE's naming scheme; return the graphs without a caller."""
    callers = [op for graph in graphs for op in graph.op if op.type in ROLES and not op.subgraph_name]
    left = []
    for graph in graphs[1:]:
        matches = [op for op in callers if _is_called_by(graph.name, op.name)]
        if len(matches) == 1:
            matches[0].subgraph_name.append(graph.name)
        else:
            left.append(graph.name)
    return left


def _is_called_by(graph: str, node: str) -> bool:
    """Whether GE's names match: a caller is named after its partition, a branch after its node."""
    if node.startswith(f"{graph}_PartitionedCall"):
        return True
    return graph.startswith(node) and not graph[len(node) : len(node) + 1].isalnum()

"""Which node calls which graph, where a format names the graphs and not their callers."""

from __future__ import annotations

from typing import Any

# The graphs that a node of a type calls, in their order; the last stands for all that follow.
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
    """What the graph at ``place`` is to a node of this type."""
    roles = ROLES.get(op_type, ("graph",))
    if index < len(roles) - 1 or (index == len(roles) - 1 and not (several and len(roles) == 1)):
        return roles[index]
    return f"{roles[-1]}{index}"


def assign_calls(graphs: list[Any]) -> list[str]:
    """Tell nodes which graphs they call, by the names GE gives both; the names of graphs that this leaves over."""
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
    """GE calls a partition's caller after the partition, and a branch after its node."""
    if node.startswith(f"{graph}_PartitionedCall"):
        return True
    return graph.startswith(node) and not graph[len(node) : len(node) + 1].isalnum()

"""Runs passes over a graph until a fixed point, for at most four rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..ge import OUTPUT_TYPE, build_nodes, sort_topologically
from . import casts, constants, cse, dce, gqa_broadcast, int4, reshapes, shapes, transposes
from .graph import Graph
from .inference import InputInfo
from .purity import PURE_TYPES

_MODULES: dict[str, Any] = {
    "constants": constants,
    "cse": cse,
    "casts": casts,
    "int4": int4,
    "reshapes": reshapes,
    "transposes": transposes,
    "gqa_broadcast": gqa_broadcast,
    "shapes": shapes,
    "dce": dce,
}
# In the order in which they run.
NAMES = tuple(_MODULES)
_ROUNDS = 4


@dataclass
class Step:
    """What a pass did: the outputs it replaced, by the output that has their value now, and the nodes it changed."""

    name: str
    replaced: dict[str, str] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)


def run(
    graph_def: Any,
    names: Sequence[str],
    input_info: Mapping[str, InputInfo] | None = None,
    observe: Callable[[str], None] | None = None,
) -> list[Step]:
    """Run passes over a GraphDef, in place; ``observe`` is called with the name of each pass that changed it."""
    steps = {name: Step(name) for name in names}
    if not names or not any(op.type == OUTPUT_TYPE for op in graph_def.op):
        return list(steps.values())
    original = {op.name for op in graph_def.op}
    # In topological order, a node may replace any later one: it never depends on it.
    _sort(graph_def, original)
    _run_to_fixed_point(Graph(graph_def, input_info), steps, observe)
    _sort(graph_def, original)
    return list(steps.values())


def nodes_kept_by_control_edges(graph_def: Any, names: Sequence[str]) -> list[str]:
    """The pure nodes that passes would eliminate if they had no control edges. The GraphDef is changed."""
    run(graph_def, names)
    pinned = Graph(graph_def).pinned
    if not pinned:
        return []
    graph = Graph(graph_def, pinned=False)
    read = graph.read_nodes()
    computed = [op.name for op in graph_def.op if op.name in pinned & read and op.type in PURE_TYPES]
    _run_to_fixed_point(graph, {name: Step(name) for name in names}, None)
    needed = graph.read_nodes()
    return [name for name in computed if name not in needed]


def _run_to_fixed_point(graph: Graph, steps: Mapping[str, Step], observe: Callable[[str], None] | None) -> None:
    for _ in range(_ROUNDS):
        if not any([_apply(graph, step, observe) for step in steps.values()]):
            break


def _apply(graph: Graph, step: Step, observe: Callable[[str], None] | None) -> bool:
    graph.replaced, graph.changed = step.replaced, step.changed
    before = graph.changes
    _MODULES[step.name].run(graph)
    has_changed = graph.changes > before
    if has_changed and observe is not None:
        observe(step.name)
    return has_changed


def _sort(graph_def: Any, original: set[str]) -> None:
    """Sort nodes topologically and keep their order otherwise: one node may write what another reads.

    New nodes come first: they are constants, which depend on nothing.
    """
    graph_def.op.sort(key=lambda op: op.name in original)
    position = {node.name: index for index, node in enumerate(sort_topologically(build_nodes(graph_def)))}
    graph_def.op.sort(key=lambda op: position[op.name])

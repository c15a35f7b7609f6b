"""Runs passes over a graph until they change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..ge import OUTPUT_TYPE, build, topological
from . import (
    casts,
    constants,
    dead,
    equal,
    heads,
    int4,
    known,
    reshapes,
    results,
    results_of_shapes,
    shapes,
    transposes,
)
from .graph import Graph
from .known import Given

_MODULES: dict[str, Any] = {
    "constants": constants,
    "equal": equal,
    "casts": casts,
    "int4": int4,
    "reshapes": reshapes,
    "transposes": transposes,
    "heads": heads,
    "shapes": shapes,
    "dead": dead,
}
# In the order in which they run.
NAMES = tuple(_MODULES)
_ROUNDS = 4
__all__ = ["NAMES", "Step", "held", "results", "results_of_shapes", "run"]


@dataclass
class Step:
    """What a pass did: results that it let others stand for, and nodes that it changed."""

    name: str
    replaced: dict[str, str] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)


def run(
    graph_def: Any,
    names: Sequence[str],
    given: Mapping[str, Given] | None = None,
    observe: Callable[[str], None] | None = None,
) -> list[Step]:
    """Send a GraphDef through passes, which change it; ``observe`` is told the name of each that did something."""
    steps = {name: Step(name) for name in names}
    if not names or not any(op.type == OUTPUT_TYPE for op in graph_def.op):
        return list(steps.values())
    there = {op.name for op in graph_def.op}
    # What stands first never depends on what stands behind it, so that it may stand for that.
    _sort(graph_def, there)
    _until_nothing_changes(Graph(graph_def, given), steps, observe)
    _sort(graph_def, there)
    return list(steps.values())


def held(graph_def: Any, names: Sequence[str]) -> list[str]:
    """The nodes that passes would take out of a GraphDef but for their control edges. The GraphDef is changed."""
    run(graph_def, names)
    pinned = Graph(graph_def).pinned
    if not pinned:
        return []
    graph = Graph(graph_def, pinned=False)
    read = graph.read_nodes()
    computed = [op.name for op in graph_def.op if op.name in pinned & read and op.type in known.TOLD]
    _until_nothing_changes(graph, {name: Step(name) for name in names}, None)
    needed = graph.read_nodes()
    return [name for name in computed if name not in needed]


def _until_nothing_changes(graph: Graph, steps: Mapping[str, Step], observe: Callable[[str], None] | None) -> None:
    for _ in range(_ROUNDS):
        if not any([_apply(graph, step, observe) for step in steps.values()]):
            break


def _apply(graph: Graph, step: Step, observe: Callable[[str], None] | None) -> bool:
    graph.replaced, graph.changed = step.replaced, step.changed
    before = graph.changes
    _MODULES[step.name].run(graph)
    done = graph.changes > before
    if done and observe is not None:
        observe(step.name)
    return done


def _sort(graph_def: Any, there: set[str]) -> None:
    """Put producers before their readers, others in the order in which they were: one may write what another reads.

    What is new are constants, which nothing must wait for.
    """
    graph_def.op.sort(key=lambda op: op.name in there)
    place = {node.name: at for at, node in enumerate(topological(build(graph_def)))}
    graph_def.op.sort(key=lambda op: place[op.name])

"""Runs passes over a graph until they change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..ge import OUTPUT_TYPE, build, topological
from . import casts, constants, dead, equal, int4, reshapes, rules, rules_shape, shapes, transposes
from .graph import Graph
from .known import Given

_MODULES: dict[str, Any] = {
    "constants": constants,
    "equal": equal,
    "casts": casts,
    "int4": int4,
    "reshapes": reshapes,
    "transposes": transposes,
    "shapes": shapes,
    "dead": dead,
}
# In the order in which they run.
NAMES = tuple(_MODULES)
_ROUNDS = 4
__all__ = ["NAMES", "Step", "rules", "rules_shape", "run"]


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
    graph = Graph(graph_def, given)
    for _ in range(_ROUNDS):
        if not any([_apply(graph, steps[name], observe) for name in names]):
            break
    _sort(graph_def)
    return list(steps.values())


def _apply(graph: Graph, step: Step, observe: Callable[[str], None] | None) -> bool:
    graph.replaced, graph.changed = step.replaced, step.changed
    before = graph.changes
    _MODULES[step.name].run(graph)
    done = graph.changes > before
    if done and observe is not None:
        observe(step.name)
    return done


def _sort(graph_def: Any) -> None:
    """Put producers before their readers."""
    place = {node.name: at for at, node in enumerate(topological(build(graph_def)))}
    graph_def.op.sort(key=lambda op: place[op.name])

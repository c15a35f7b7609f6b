"""Sends a GE graph that TorchAir makes through passes, and notes what they did beside it.

Which passes: all, none, or those of a list.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

from ..settings import Setting
from .graph import standing
from .known import Given
from .run import NAMES, Step, run
from .sizes import ONE, Size, number, symbol

__all__ = ["OFF", "VARIABLE", "all_replaced", "current", "simplify", "standing", "steps_of", "use"]
ALL, OFF = "on", "off"
VARIABLE = "GRAPH_QUANT_PASSES"
_NOTED = "_graph_quant_passes"


@functools.cache
def _parsed(setting: str, source: str) -> tuple[str, ...]:
    words = [word.strip().lower() for word in setting.split(",") if word.strip()]
    if words in ([], [ALL]):
        return NAMES
    if words == [OFF]:
        return ()
    unknown = [word for word in words if word not in NAMES]
    if unknown:
        raise ValueError(f"{source}: must be {ALL}, {OFF} or some of {', '.join(NAMES)}, got {unknown[0]!r}")
    return tuple(name for name in NAMES if name in words)


_setting = Setting(VARIABLE, _parsed)
# The names of the passes that a graph made now goes through, in their order.
current = _setting.current


def use(passes: str) -> AbstractContextManager[None]:
    """Send the graphs that are made inside this block through ``passes``: "on", "off", or names with commas."""
    return _setting.use(passes, "graph_quant.passes.use")


def steps_of(ge_graph: Any) -> list[Step]:
    """What the passes did to a graph; nothing where none ran."""
    noted: list[Step] = vars(ge_graph).get(_NOTED, [])
    return noted


def all_replaced(ge_graph: Any) -> dict[str, str]:
    """By a result that passes took out: the one that stands for it."""
    return {old: new for step in steps_of(ge_graph) for old, new in step.replaced.items()}


def simplify(concrete_graph: Any, names: tuple[str, ...], observer: Any) -> None:
    """Send the graph that TorchAir's GeConcreteGraph holds through passes; the observer dumps what each leaves."""
    graph = concrete_graph.graph
    told = None if observer is None else lambda name: observer.dump_gegraph(graph, f"graph_after_{name}")
    vars(graph)[_NOTED] = run(graph, names, _inputs(concrete_graph), told)


def _inputs(concrete_graph: Any) -> dict[str, Given]:
    """What torch knows of the inputs: which sizes are the same, and which are never 0."""
    symbols = {place: expression for expression, place in concrete_graph._all_sym_input_idx.items()}
    tensors = concrete_graph._all_meta_tensor_input
    given: dict[str, Given] = {}
    for name, info in concrete_graph.graph.named_inputs_info.items():
        place = getattr(info.func, "fx_input_idx", None)
        places = getattr(info.func, "fx_input_idx_list", None)
        if place in tensors:
            given[name] = _tensor(tensors[place])
        elif place in symbols:
            given[name] = Given((), (size_of(symbols[place]),))
        elif places is not None:
            given[name] = Given((number(len(places)),), tuple(size_of(symbols[each]) for each in places))
    return given


def _tensor(meta: Any) -> Given:
    sizes: list[Size] = []
    positive: set[str] = set()
    for dim in meta.size():
        if isinstance(dim, int):
            sizes.append(number(dim))
            continue
        sizes.append(size_of(dim.node.expr))
        ranges = dim.node.shape_env.var_to_range
        positive.update(
            str(each) for each in dim.node.expr.free_symbols if each in ranges and bool(ranges[each].lower >= 1)
        )
    return Given(tuple(sizes), None, frozenset(positive))


def size_of(expression: Any) -> Size:
    """A size as torch writes it; what is more than sums and products is a symbol of its own."""
    if expression.is_Integer:
        return number(int(expression))
    if expression.is_Add:
        total = number(0)
        for part in expression.args:
            total += size_of(part)
        return total
    if expression.is_Mul:
        total = ONE
        for part in expression.args:
            total *= size_of(part)
        return total
    return symbol(str(expression))

"""Runs passes over each GE graph that TorchAir builds, and records beside the graph what they did.

``GRAPH_QUANT_PASSES`` selects all passes, none, or a list of them.
"""

from __future__ import annotations

import functools
import warnings
from contextlib import AbstractContextManager
from typing import Any

from ..settings import Setting
from .graph import resolve_replacement
from .inference import InputInfo
from .run import NAMES, Step, run
from .sizes import ONE, Size, number, symbol

__all__ = ["OFF", "VARIABLE", "collect_replacements", "current", "get_steps", "resolve_replacement", "simplify", "use"]
ALL, OFF = "on", "off"
VARIABLE = "GRAPH_QUANT_PASSES"
# Names of passes before release 0.2, which are still accepted.
RENAMED = {"equal": "cse", "dead": "dce", "heads": "gqa_broadcast"}
_STEPS = "_graph_quant_passes"


@functools.cache
def _parsed(setting: str, source: str) -> tuple[str, ...]:
    words = [word.strip().lower() for word in setting.split(",") if word.strip()]
    if words in ([], [ALL]):
        return NAMES
    if words == [OFF]:
        return ()
    old = [word for word in words if word in RENAMED]
    if old:
        renames = ", ".join(f"{word!r} is now {RENAMED[word]!r}" for word in old)
        warnings.warn(f"{source}: deprecated names of passes: {renames}", FutureWarning, stacklevel=2)
    words = [RENAMED.get(word, word) for word in words]
    unknown = [word for word in words if word not in NAMES]
    if unknown:
        raise ValueError(f"{source}: must be {ALL}, {OFF} or some of {', '.join(NAMES)}, got {unknown[0]!r}")
    return tuple(name for name in NAMES if name in words)


_setting = Setting(VARIABLE, _parsed)
# The names of the passes that a graph built now goes through, in their order.
current = _setting.current


def use(passes: str) -> AbstractContextManager[None]:
    """Select the passes for the graphs that are built inside a ``with`` block.

    Args:
        passes: ``"on"``, ``"off"``, or names of passes separated by commas.

    Returns:
        A context manager. It takes precedence over ``GRAPH_QUANT_PASSES``.

    Raises:
        ValueError: A name is not the name of a pass.

    Examples:
        >>> with graph_quant.passes.use("constants,dce"):
        ...     compiled(x)
    """
    return _setting.use(passes, "graph_quant.passes.use")


def get_steps(ge_graph: Any) -> list[Step]:
    """What the passes did to a graph; empty where none ran."""
    steps: list[Step] = vars(ge_graph).get(_STEPS, [])
    return steps


def collect_replacements(ge_graph: Any) -> dict[str, str]:
    """The outputs that passes replaced, by the output that replaced each."""
    return {old: new for step in get_steps(ge_graph) for old, new in step.replaced.items()}


def simplify(concrete_graph: Any, names: tuple[str, ...], observer: Any) -> None:
    """Run passes over the graph of a GeConcreteGraph; TorchAir's observer dumps the graph after each."""
    graph = concrete_graph.graph
    dump = None if observer is None else lambda name: observer.dump_gegraph(graph, f"graph_after_{name}")
    vars(graph)[_STEPS] = run(graph, names, _collect_input_info(concrete_graph), dump)


def _collect_input_info(concrete_graph: Any) -> dict[str, InputInfo]:
    """What torch knows of the inputs: which sizes are equal, and which are never 0."""
    symbols = {index: expression for expression, index in concrete_graph._all_sym_input_idx.items()}
    tensors = concrete_graph._all_meta_tensor_input
    infos: dict[str, InputInfo] = {}
    for name, info in concrete_graph.graph.named_inputs_info.items():
        index = getattr(info.func, "fx_input_idx", None)
        indices = getattr(info.func, "fx_input_idx_list", None)
        if index in tensors:
            infos[name] = _tensor_info(tensors[index])
        elif index in symbols:
            infos[name] = InputInfo((), (parse_size(symbols[index]),))
        elif indices is not None:
            infos[name] = InputInfo((number(len(indices)),), tuple(parse_size(symbols[index]) for index in indices))
    return infos


def _tensor_info(meta: Any) -> InputInfo:
    sizes: list[Size] = []
    positive: set[str] = set()
    for dim in meta.size():
        if isinstance(dim, int):
            sizes.append(number(dim))
            continue
        sizes.append(parse_size(dim.node.expr))
        ranges = dim.node.shape_env.var_to_range
        positive.update(
            str(variable)
            for variable in dim.node.expr.free_symbols
            if variable in ranges and bool(ranges[variable].lower >= 1)
        )
    return InputInfo(tuple(sizes), None, frozenset(positive))


def parse_size(expression: Any) -> Size:
    """Convert a SymPy expression to a Size. Terms beyond sums and products become symbols of their own."""
    if expression.is_Integer:
        return number(int(expression))
    if expression.is_Add:
        total = number(0)
        for part in expression.args:
            total += parse_size(part)
        return total
    if expression.is_Mul:
        total = ONE
        for part in expression.args:
            total *= parse_size(part)
        return total
    return symbol(str(expression))

"""Floats of modules, an epsilon for example, become constants of the graph that Dynamo hands to a backend.

With ``dynamic=True`` Dynamo passes every float as an input, and no fused operator takes an epsilon as a tensor. A guard
recompiles the function when the module's float changes. Floats that are arguments of the function stay inputs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch._dynamo.source import is_from_unspecialized_nn_module_source
from torch._dynamo.symbolic_convert import TensorifyState
from torch.fx import GraphModule, Node

# A float that keeps changing is left an input: each value costs a recompilation, which Dynamo limits.
_MOST_VALUES = 4
_seen: defaultdict[str, set[float]] = defaultdict(set)


@contextmanager
def constant_module_numbers(gm: GraphModule) -> Iterator[None]:
    """Replace the floats of modules in Dynamo's graph by constants, with guards; the block compiles the graph.

    AOTAutograd compares the inputs that are not used with Dynamo's list of constants, and starts again if one is
    missing. The list lives longer than a compilation.
    """
    names = [name for node in gm.graph.find_nodes(op="placeholder") if (name := _specialise(node))]
    if names:
        gm.recompile()
    try:
        yield
    finally:
        TensorifyState.force_specializations.difference_update(names)


def _specialise(node: Node) -> str:
    """Replace what reads the float of a module by its value, and return the name of its symbol; "" for others."""
    symbol = _symbol_of_module(node)
    items = [reader for reader in node.users if reader.op == "call_method" and reader.target == "item"]
    if symbol is None or not items:
        return ""
    seen, value = _seen[str(_source(node))], symbol.node.hint
    if value not in seen and len(seen) == _MOST_VALUES:
        return ""
    seen.add(value)
    name = str(symbol.node.expr)
    TensorifyState.specialize(name)
    value = float(symbol)  # this adds the guard
    for item in items:
        item.replace_all_uses_with(value)  # type: ignore[arg-type]
        node.graph.erase_node(item)
    return name


def _source(node: Node) -> object:
    return getattr(node, "_dynamo_source", None)


def _symbol_of_module(node: Node) -> torch.SymFloat | None:
    """The symbol of the number that an input stands for, if the number is an attribute of a module."""
    source = _source(node)
    symbol = getattr(node.meta.get("example_value"), "item_memo", None)
    if not isinstance(symbol, torch.SymFloat) or source is None:
        return None
    return symbol if is_from_unspecialized_nn_module_source(source) else None  # type: ignore[arg-type]

"""Which outputs of an imported graph may share memory with an input, a constant or one another."""

from __future__ import annotations

import operator
from typing import Any

from torch import fx


def shared_outputs(module: fx.GraphModule) -> tuple[bool, ...]:
    """For each output whether its memory is its own. A caller may write to what a graph returns."""
    results = module.graph.output_node().args[0]
    assert isinstance(results, tuple)
    roots = [_root(result) for result in results]
    return tuple(root.op == "call_function" and roots.count(root) == 1 for root in roots)


def _root(node: Any) -> fx.Node:
    """The node that made the memory behind a result."""
    while node.op == "call_function":
        if node.target is operator.getitem:
            kernel = node.args[0].meta.get("kernel")
            if kernel is None or not kernel.may_alias:
                return node  # type: ignore[no-any-return]
            node = node.args[0]
        kernel = node.meta.get("kernel")
        source = next((argument for argument in node.args if isinstance(argument, fx.Node)), None)
        if kernel is None or not kernel.may_alias or source is None:
            return node  # type: ignore[no-any-return]
        node = source
    return node  # type: ignore[no-any-return]

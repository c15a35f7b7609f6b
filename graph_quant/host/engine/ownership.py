"""Which outputs of an imported graph have memory of their own. A caller may write to what a graph returns."""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any

from torch import fx


def owned_outputs(module: fx.GraphModule) -> list[bool]:
    """For each output whether it shares memory with no input, constant or other output."""
    results: Any = module.graph.output_node().args[0]
    roots = [_root(result) for result in results]
    counts = Counter(roots)
    return [root.op == "call_function" and counts[root] == 1 for root in roots]


def _root(node: fx.Node) -> fx.Node:
    """The node that made the memory behind a result."""
    while node.op == "call_function":
        maker: Any = node.args[0] if node.target is operator.getitem else node
        kernel = maker.meta.get("kernel")
        if kernel is None or not kernel.may_alias:
            return node
        node = next(
            argument for declared, argument in zip(kernel.inputs, maker.args, strict=True) if not declared.is_size
        )
    return node

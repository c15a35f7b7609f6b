"""A quantisation and the products that read it as one step of Inductor's code: fewer calls, and rows laid out once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._inductor.pattern_matcher import stable_topological_sort

from ...reference.matmul import int8_rescaled, quantised_products
from ...reference.quant import rows


class _Products(NamedTuple):
    """A quantisation, and all that reads it."""

    quantisation: fx.Node
    nodes: list[fx.Node]

    def join(self) -> None:
        """Put one step in the place of all."""
        graph, (x, smooth, inverts) = self.quantisation.graph, self.quantisation.args
        weights, scales, biases = ([node.args[place] for node in self.nodes] for place in (1, 2, 4))
        with graph.inserting_before(self.nodes[0]):
            joined = self._call(x, smooth, inverts, weights, scales, biases, self.nodes[0].args[5])
            for place, node in enumerate(self.nodes):
                part = graph.call_function(operator.getitem, (joined, place))
                part.meta["val"] = node.meta["val"]
                node.replace_all_uses_with(part)
        for reader in self.nodes:
            graph.erase_node(reader)

    def _call(self, *arguments: Any) -> fx.Node:
        node = self.quantisation.graph.call_function(quantised_products.STEP, arguments)
        node.meta["val"] = [each.meta["val"] for each in self.nodes]
        return node


class JoinProducts(CustomGraphPass):
    """The pass, as Inductor takes it."""

    def __call__(self, graph: fx.Graph) -> None:
        """Join what can be joined."""
        found = [_products_of(node) for node in graph.find_nodes(op="call_function", target=rows.STEP)]
        joined = [each for each in found if each is not None]
        for each in joined:
            each.join()
        if joined:
            stable_topological_sort(graph)
            graph.eliminate_dead_code()

    def uuid(self) -> Any:
        """What code that is kept on disk is known by."""
        return get_hash_for_files((__file__,))


def _products_of(quantisation: fx.Node) -> _Products | None:
    """The products of what is quantised; None where something else reads it, or they do not belong together."""
    results = list(quantisation.users)
    if {each.args[1] for each in results} != {0, 1} or len(results) != 2:
        return None
    y, scale = sorted(results, key=lambda each: each.args[1])  # type: ignore[arg-type, return-value]
    nodes = list(y.users)
    reads = [each.target is int8_rescaled.STEP and each.args[0] is y and each.args[3] is scale for each in nodes]
    if not all(reads) or set(scale.users) != set(nodes):
        return None
    if len({each.args[5] for each in nodes}) > 1:
        return None
    others = [each.args[place] for each in nodes for place in (1, 2, 4)]
    return _Products(quantisation, nodes) if all(map(_is_given, others)) else None


def _is_given(argument: Any) -> bool:
    """Whether it is there before anything is computed: an input, a constant, or a view of them."""
    if not isinstance(argument, fx.Node) or argument.op in ("placeholder", "get_attr"):
        return True
    target: Callable[..., Any] | str = argument.target
    is_view = isinstance(target, torch._ops.OpOverload) and target.is_view
    read: Iterable[Any] = argument.all_input_nodes
    return is_view and all(map(_is_given, read))

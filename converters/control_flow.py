"""torch.cond and scan without GE's nodes for control flow: both branches and a choice, and steps one after the other.

Branches and steps have no effects but their results, so that computing both, or all, changes no result. A loop whose
steps are not counted when the graph is built is refused with the way out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

aten = torch.ops.aten
_COND, _SCAN = torch.ops.higher_order.cond, torch.ops.higher_order.scan
_LOOP, _EFFECT = torch.ops.higher_order.while_loop, torch.ops.higher_order.with_effects
CONTROL_FLOW = (_COND, _SCAN, _LOOP, _EFFECT)
# Kernels of nodes fail themselves where a matrix has no result.
_KEPT_BY_NODES = (aten._linalg_check_errors.default,)
MOST_STEPS = 256


def flatten(module: GraphModule) -> None:
    """Put what branches and steps compute in their place."""
    found = [node for node in module.graph.nodes if node.target in CONTROL_FLOW]
    for node in found:
        if node.target is _LOOP:
            raise NotImplementedError(
                "while_loop is not lowered: loop in Python where the steps are counted, or call the graph in a loop"
            )
        with module.graph.inserting_before(node):
            results = _HOW[node.target](module, node)
        _replace(node, results)
    if found:
        module.graph.eliminate_dead_code()
        module.recompile()


def _body(module: GraphModule, place: Any) -> GraphModule:
    """A branch or step, without control flow of its own."""
    body: Any = module.get_submodule(str(place.target))
    flatten(body)
    return body  # type: ignore[no-any-return]


def _inline(graph: Graph, body: GraphModule, given: Sequence[Any]) -> list[Any]:
    """What a body computes of what it is given, in the graph."""
    placeholders = [node for node in body.graph.nodes if node.op == "placeholder"]
    returned = graph.graph_copy(body.graph, dict(zip(placeholders, given, strict=True)))
    return list(returned) if isinstance(returned, (tuple, list)) else [returned]


def _chosen(module: GraphModule, node: Node) -> list[Node]:
    given: Any = node.args
    predicate, then, otherwise, operands = given
    if not isinstance(predicate, Node) or not isinstance(predicate.meta.get("val"), torch.Tensor):
        raise NotImplementedError("torch.cond is lowered for a predicate that is a tensor: decide on sizes in Python")
    branches = [_inline(module.graph, _body(module, place), operands) for place in (then, otherwise)]
    results = []
    for one, other, value in zip(*branches, node.meta["val"], strict=True):
        result = module.graph.call_function(aten.where.self, (predicate, one, other))
        result.meta["val"] = value
        results.append(result)
    return results


def _stepped(module: GraphModule, node: Node) -> list[Node]:
    given: Any = node.args
    step, (carried, scanned, others) = given[0], (list(each) for each in given[1:])
    count = scanned[0].meta["val"].size(0)
    if not isinstance(count, int) or count > MOST_STEPS:
        raise NotImplementedError(
            f"scan is lowered over at most {MOST_STEPS} steps that are known when the graph is built, got {count}: "
            "compile with dynamic=False, or call the graph in a loop"
        )
    body, graph, made = _body(module, step), module.graph, []
    for place in range(count):
        rows = [_call(graph, aten.select.int, (each, 0, place)) for each in scanned]
        results = _inline(graph, body, [*carried, *rows, *others])
        carried = results[: len(carried)]
        made.append(results[len(carried) :])
    return [*carried, *(_stacked(graph, list(each)) for each in zip(*made, strict=True))]


def _stacked(graph: Graph, rows: list[Node]) -> Node:
    return _call(graph, aten.cat.default, ([_call(graph, aten.unsqueeze.default, (row, 0)) for row in rows], 0))


def _call(graph: Graph, overload: Any, args: tuple[Any, ...]) -> Node:
    """A call, and the tensor that it gives where all that it is given are known."""
    node = graph.call_function(overload, args)
    values = torch.fx.node.map_arg(args, lambda each: each.meta.get("val"))
    node.meta["val"] = overload(*values)
    return node


def _replace(node: Node, results: list[Node]) -> None:
    for user in list(node.users):
        place: Any = user.args[1]
        user.replace_all_uses_with(results[place])
        user.graph.erase_node(user)
    node.graph.erase_node(node)


def _checked(_module: GraphModule, node: Node) -> list[Any]:
    """Effects that are left to nodes have no order of their own, for which nothing is given or returned."""
    effect = node.args[1]
    if effect not in _KEPT_BY_NODES:
        raise NotImplementedError(f"{effect} is not lowered: call it outside of the compiled function")
    for order in list(node.users):
        for user in list(order.users):
            user.args = map_arg(user.args, lambda given, order=order: None if given is order else given)  # type: ignore[misc]
        node.graph.erase_node(order)
    return []


_HOW = {_COND: _chosen, _SCAN: _stepped, _EFFECT: _checked}

"""torch.cond and scan without GE's control flow nodes: both branches and a select, and unrolled steps.

Branches and steps have no side effects, so that computing both branches changes no result. A loop whose number of steps
is not known when the graph is built is refused with a workaround.
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
# Effects without a node: the kernels before them fail on errors themselves.
_CHECKED_BY_KERNELS = (aten._linalg_check_errors.default,)
MOST_STEPS = 256


def flatten(module: GraphModule) -> None:
    """Inline branches and steps into the graph."""
    nodes = [node for node in module.graph.nodes if node.target in CONTROL_FLOW]
    for node in nodes:
        if node.target is _LOOP:
            raise NotImplementedError(
                "while_loop is not lowered: loop in Python where the steps are counted, or call the graph in a loop"
            )
        with module.graph.inserting_before(node):
            results = _REPLACE[node.target](module, node)
        _replace(node, results)
    if nodes:
        module.graph.eliminate_dead_code()
        module.recompile()


def _body(module: GraphModule, attribute: Any) -> GraphModule:
    """The body of a branch or step, itself flattened."""
    body: Any = module.get_submodule(str(attribute.target))
    flatten(body)
    return body  # type: ignore[no-any-return]


def _inline(graph: Graph, body: GraphModule, arguments: Sequence[Any]) -> list[Any]:
    """Copy a body into the graph; returns its results."""
    placeholders = [node for node in body.graph.nodes if node.op == "placeholder"]
    returned = graph.graph_copy(body.graph, dict(zip(placeholders, arguments, strict=True)))
    return list(returned) if isinstance(returned, (tuple, list)) else [returned]


def _inline_cond(module: GraphModule, node: Node) -> list[Node]:
    arguments: Any = node.args
    predicate, then, otherwise, operands = arguments
    if not isinstance(predicate, Node) or not isinstance(predicate.meta.get("val"), torch.Tensor):
        raise NotImplementedError("torch.cond is lowered for a predicate that is a tensor: decide on sizes in Python")
    branches = [_inline(module.graph, _body(module, branch), operands) for branch in (then, otherwise)]
    results = []
    for one, other, value in zip(*branches, node.meta["val"], strict=True):
        result = module.graph.call_function(aten.where.self, (predicate, one, other))
        result.meta["val"] = value
        results.append(result)
    return results


def _unroll_scan(module: GraphModule, node: Node) -> list[Node]:
    arguments: Any = node.args
    step, (carried, scanned, others) = arguments[0], (list(part) for part in arguments[1:])
    count = scanned[0].meta["val"].size(0)
    if not isinstance(count, int) or count > MOST_STEPS:
        raise NotImplementedError(
            f"scan is lowered over at most {MOST_STEPS} steps that are known when the graph is built, got {count}: "
            "compile with dynamic=False, or call the graph in a loop"
        )
    body, graph, step_results = _body(module, step), module.graph, []
    for index in range(count):
        rows = [_call(graph, aten.select.int, (part, 0, index)) for part in scanned]
        results = _inline(graph, body, [*carried, *rows, *others])
        carried = results[: len(carried)]
        step_results.append(results[len(carried) :])
    return [*carried, *(_stack(graph, list(part)) for part in zip(*step_results, strict=True))]


def _stack(graph: Graph, rows: list[Node]) -> Node:
    return _call(graph, aten.cat.default, ([_call(graph, aten.unsqueeze.default, (row, 0)) for row in rows], 0))


def _call(graph: Graph, overload: Any, args: tuple[Any, ...]) -> Node:
    """Add a call, with its fake result as metadata."""
    node = graph.call_function(overload, args)
    values = torch.fx.node.map_arg(args, lambda argument: argument.meta.get("val"))
    node.meta["val"] = overload(*values)
    return node


def _replace(node: Node, results: list[Node]) -> None:
    for user in list(node.users):
        index: Any = user.args[1]
        user.replace_all_uses_with(results[index])
        user.graph.erase_node(user)
    node.graph.erase_node(node)


def _drop_effect(_module: GraphModule, node: Node) -> list[Any]:
    """Remove an effect that kernels check themselves, with its ordering tokens."""
    effect = node.args[1]
    if effect not in _CHECKED_BY_KERNELS:
        raise NotImplementedError(f"{effect} is not lowered: call it outside of the compiled function")
    for order in list(node.users):
        for user in list(order.users):
            user.args = map_arg(user.args, lambda argument, order=order: None if argument is order else argument)  # type: ignore[misc]
        node.graph.erase_node(order)
    return []


_REPLACE = {_COND: _inline_cond, _SCAN: _unroll_scan, _EFFECT: _drop_effect}

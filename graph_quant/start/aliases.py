"""Results that share memory: a GE graph has none, so that each result has memory of its own, also a view of another.

What is written to one would then not be seen in the other, as it is without a graph. Here the graph makes what views
are of, and the views are taken of it when it has run.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from ..releases.alternatives import optimization_hint

# A size for those that are known only when the graph runs: in which order strides fall does not hang on it.
_SOME = 97
# What a kept graph is called by.
_KEPT = """
_graph = kernel
def kernel(*args, **kwargs):
    return forward(None, args, _graph(*args, **kwargs))
"""


class WithViews:
    """A compiled graph, followed by the views of its results."""

    def __init__(self, compiled: Any, views: fx.GraphModule) -> None:
        self._compiled, self._views = compiled, views

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """All results."""
        return self._views(args, self._compiled(*args, **kwargs))

    def __getattr__(self, name: str) -> Any:
        """What else is asked of the graph itself."""
        return getattr(self._compiled, name)

    def get_code(self, extend_config: Any = None) -> Any:
        """The code that is kept by TorchAir's cache, with the views behind it."""
        code = self._compiled.get_code(extend_config)
        if not isinstance(code, str):
            return self
        written = self._views.graph.python_code("_self")
        imported = "\n".join(_imported(name, each) for name, each in written.globals.items())
        return f"{code}\n{imported}\n{written.src}\n{_KEPT}"


def _imported(name: str, value: Any) -> str:
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    return f"from {__name__} import {value.__name__} as {name}" if value is laid_out_as else ""


def taken_out(module: fx.GraphModule) -> fx.GraphModule | None:
    """Let a graph return what results are views of in place of the views; what takes these, where there are some.

    Of results that are the only one of their memory nobody sees whether they are views. Of inputs it is seen:
    AOTAutograd takes such views anew, by the strides and the place in memory of the result that stands for one. Neither
    is said by a graph, nor does an input need to begin where it did when the graph was made.
    """
    output = next(iter(module.graph.find_nodes(op="output")))
    results = list(output.args[0])
    written = _written(module)
    owners = {node: _owner(node, written) for node in results if isinstance(node, fx.Node)}
    counts = Counter(owners.values())
    shared = [owner for owner in counts if owner.op != "placeholder" and owner not in written and counts[owner] > 1]
    of_inputs = {each for each in counts if each.op == "placeholder"} - {*written.values()}
    views = {
        node
        for node, owner in owners.items()
        if owner in written or (node is not owner and (owner in shared or owner in of_inputs))
    }
    if not views:
        return None
    kept = [node for node in results if node not in views]
    kept += [owner for owner in shared if owner not in kept]
    taken = _taking(module, results, kept, {node: owners[node] for node in views}, written)
    if taken is not None:
        output.args = (tuple(kept),)
        module.graph.eliminate_dead_code()
        module.recompile()
    return taken


def _written(module: fx.GraphModule) -> dict[fx.Node, fx.Node]:
    """By what a graph writes into an input at its end: the input, which has the same elements then."""
    found: dict[fx.Node, fx.Node] = {}
    for write in module.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
        target, value = write.args[:2]
        while target.op == "placeholder" and value.op == "call_function" and _is_alike(target, value):
            found[value] = target
            if value.target is not torch.ops.aten.copy.default:
                break
            value = value.args[1]
    return found


def _is_alike(one: fx.Node, other: fx.Node) -> bool:
    """Whether dtypes and sizes are the same: nothing is converted or spread where one is written to the other."""
    a, b = one.meta.get("val"), other.meta.get("val")
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or (a.dtype, a.dim()) != (b.dtype, b.dim()):
        return False
    pairs = zip(a.size(), b.size(), strict=True)
    return all(str(m) == str(n) or optimization_hint(m, -1) == optimization_hint(n, -2) for m, n in pairs)


def laid_out_as(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the strides and at the place that the tensor has in its memory: views of both are told alike."""
    steps = zip(tensor.size(), tensor.stride(), strict=True)
    extent = tensor.storage_offset() + 1 + sum((size - 1) * stride for size, stride in steps) if tensor.numel() else 0
    memory = tensor.new_empty(extent)
    return memory.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).copy_(tensor)


def _owner(node: fx.Node, written: Mapping[fx.Node, fx.Node]) -> fx.Node:
    """What made the memory that a node's result is in, or is written to an input."""
    while node not in written and (source := _viewed(node)) is not None:
        node = source
    return node


def _viewed(node: fx.Node) -> fx.Node | None:
    if node.op != "call_function":
        return None
    if node.target is operator.getitem:
        return node.args[0] if _viewed(node.args[0]) is not None else None  # type: ignore[arg-type,return-value]
    is_view = isinstance(node.target, OpOverload) and node.target.is_view
    return node.args[0] if is_view and isinstance(node.args[0], fx.Node) else None


def _taking(
    module: fx.GraphModule,
    results: Sequence[Any],
    kept: Sequence[Any],
    views: Mapping[fx.Node, fx.Node],
    written: Mapping[fx.Node, fx.Node],
) -> fx.GraphModule | None:
    """A module of a graph's inputs and what it returns that gives all results; None where more than that is needed."""
    graph = fx.Graph()
    inputs, returned = graph.placeholder("inputs"), graph.placeholder("results")
    known: dict[fx.Node, fx.Node] = {}
    for place, node in enumerate(module.graph.find_nodes(op="placeholder")):
        known[node] = graph.call_function(operator.getitem, (inputs, place))
    for place, node in enumerate(kept):
        if isinstance(node, fx.Node):
            known[node] = graph.call_function(operator.getitem, (returned, place))
    for owner in dict.fromkeys(views.values()):
        if owner.op == "placeholder":
            continue
        if owner in written:
            known[owner] = graph.call_function(laid_out_as, (known[written[owner]],))
        else:
            known[owner] = _with_strides(graph, known[owner], owner)
    wanted = _needed(views, known)
    for node in module.graph.nodes:
        if node in wanted:
            if _viewed(node) is None and isinstance(node.meta.get("val"), torch.Tensor):
                return None
            known[node] = graph.node_copy(node, known.__getitem__)
    plain = iter(range(len(kept)))
    all_results = []
    for node in results:
        index = None if node in views else next(plain)
        all_results.append(known[node] if node in known else graph.call_function(operator.getitem, (returned, index)))
    graph.output(tuple(all_results))
    graph.eliminate_dead_code()
    return fx.GraphModule({}, graph)


def _needed(views: Iterable[fx.Node], known: dict[fx.Node, fx.Node]) -> set[fx.Node]:
    found: set[fx.Node] = set()
    left = list(views)
    while left:
        node = left.pop()
        if node not in found and node not in known:
            found.add(node)
            left.extend(node.all_input_nodes)
    return found


def _with_strides(graph: fx.Graph, given: fx.Node, owner: fx.Node) -> fx.Node:
    """What a graph returns, which is contiguous, with dimensions in the order that they have without a graph."""
    value = owner.meta["val"]
    order = sorted(range(value.dim()), key=lambda axis: -optimization_hint(value.stride(axis), _SOME))
    if order == sorted(order):
        return given
    turned = graph.call_function(torch.ops.aten.permute.default, (given, order))
    packed = graph.call_function(torch.ops.aten.contiguous.default, (turned,))
    back = [order.index(axis) for axis in range(len(order))]
    return graph.call_function(torch.ops.aten.permute.default, (packed, back))

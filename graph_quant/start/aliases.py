"""Results that alias each other: a GE graph copies every result, also one that is a view of another.

A write to one result would then not be visible in the other, as it is in eager mode. Here the graph returns the base
tensors, and the views are taken from them after it has run.
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

# Stands for sizes that are known only when the graph runs; the order of strides does not depend on it.
_FALLBACK_SIZE = 97
# Appended to the code of a cached graph: takes the views after the graph has run.
_CACHED_KERNEL = """
_graph = kernel
def kernel(*args, **kwargs):
    return forward(None, args, _graph(*args, **kwargs))
"""


class WithViews:
    """A compiled graph, followed by the views of its results."""

    def __init__(self, compiled: Any, views: fx.GraphModule) -> None:
        self._compiled, self._views = compiled, views

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph and take the views of its results."""
        return self._views(args, self._compiled(*args, **kwargs))

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the compiled graph."""
        return getattr(self._compiled, name)

    def get_code(self, extend_config: Any = None) -> Any:
        """Return the code for TorchAir's cache, followed by the code of the views."""
        code = self._compiled.get_code(extend_config)
        if not isinstance(code, str):
            return self
        written = self._views.graph.python_code("_self")
        imports = "\n".join(_import_line(name, value) for name, value in written.globals.items())
        return f"{code}\n{imports}\n{written.src}\n{_CACHED_KERNEL}"


def _import_line(name: str, value: Any) -> str:
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    return f"from {__name__} import {value.__name__} as {name}" if value is copy_with_layout else ""


def extract_views(module: fx.GraphModule) -> fx.GraphModule | None:
    """Make a graph return base tensors instead of their views; return the module that takes the views, if any.

    A view that shares its memory with no other result need not be extracted, except a view of an input: AOTAutograd
    rebuilds such views from the strides and the storage offset of the result. A GE graph states neither, and the offset
    of an input may differ between calls.
    """
    output = next(iter(module.graph.find_nodes(op="output")))
    results = list(output.args[0])
    written = _written(module)
    owners = {node: _base(node, written) for node in results if isinstance(node, fx.Node)}
    counts = Counter(owners.values())
    shared = [owner for owner in counts if owner.op != "placeholder" and owner not in written and counts[owner] > 1]
    of_inputs = {node for node in counts if node.op == "placeholder"} - {*written.values()}
    views = {
        node
        for node, owner in owners.items()
        if owner in written or (node is not owner and (owner in shared or owner in of_inputs))
    }
    if not views:
        return None
    kept = [node for node in results if node not in views]
    kept += [owner for owner in shared if owner not in kept]
    module_of_views = _build_views(module, results, kept, {node: owners[node] for node in views}, written)
    if module_of_views is not None:
        output.args = (tuple(kept),)
        module.graph.eliminate_dead_code()
        module.recompile()
    return module_of_views


def _written(module: fx.GraphModule) -> dict[fx.Node, fx.Node]:
    """Map the nodes that a graph copies into an input at its end to that input."""
    inputs: dict[fx.Node, fx.Node] = {}
    for write in module.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
        target, value = write.args[:2]
        while target.op == "placeholder" and value.op == "call_function" and _has_same_metadata(target, value):
            inputs[value] = target
            if value.target is not torch.ops.aten.copy.default:
                break
            value = value.args[1]
    return inputs


def _has_same_metadata(one: fx.Node, other: fx.Node) -> bool:
    """Whether dtypes and sizes are equal, so that a copy neither converts nor broadcasts."""
    a, b = one.meta.get("val"), other.meta.get("val")
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or (a.dtype, a.dim()) != (b.dtype, b.dim()):
        return False
    pairs = zip(a.size(), b.size(), strict=True)
    return all(str(m) == str(n) or optimization_hint(m, -1) == optimization_hint(n, -2) for m, n in pairs)


def copy_with_layout(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy with the same strides and storage offset: views of both have the same metadata."""
    steps = zip(tensor.size(), tensor.stride(), strict=True)
    extent = tensor.storage_offset() + 1 + sum((size - 1) * stride for size, stride in steps) if tensor.numel() else 0
    memory = tensor.new_empty(extent)
    return memory.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).copy_(tensor)


def _base(node: fx.Node, written: Mapping[fx.Node, fx.Node]) -> fx.Node:
    """Return the node that allocates the memory of a result, or that is copied into an input."""
    while node not in written and (source := _view_source(node)) is not None:
        node = source
    return node


def _view_source(node: fx.Node) -> fx.Node | None:
    if node.op != "call_function":
        return None
    if node.target is operator.getitem:
        return node.args[0] if _view_source(node.args[0]) is not None else None  # type: ignore[arg-type,return-value]
    is_view = isinstance(node.target, OpOverload) and node.target.is_view
    return node.args[0] if is_view and isinstance(node.args[0], fx.Node) else None


def _build_views(
    module: fx.GraphModule,
    results: Sequence[Any],
    kept: Sequence[Any],
    views: Mapping[fx.Node, fx.Node],
    written: Mapping[fx.Node, fx.Node],
) -> fx.GraphModule | None:
    """Return the module that computes all results from a graph's inputs and outputs; None if that is not enough."""
    graph = fx.Graph()
    inputs, returned = graph.placeholder("inputs"), graph.placeholder("results")
    known: dict[fx.Node, fx.Node] = {}
    for index, node in enumerate(module.graph.find_nodes(op="placeholder")):
        known[node] = graph.call_function(operator.getitem, (inputs, index))
    for index, node in enumerate(kept):
        if isinstance(node, fx.Node):
            known[node] = graph.call_function(operator.getitem, (returned, index))
    for owner in dict.fromkeys(views.values()):
        if owner.op == "placeholder":
            continue
        if owner in written:
            known[owner] = graph.call_function(copy_with_layout, (known[written[owner]],))
        else:
            known[owner] = _with_strides(graph, known[owner], owner)
    wanted = _needed(views, known)
    for node in module.graph.nodes:
        if node in wanted:
            if _view_source(node) is None and isinstance(node.meta.get("val"), torch.Tensor):
                return None
            known[node] = graph.node_copy(node, known.__getitem__)
    plain = iter(range(len(kept)))
    all_results = []
    for node in results:
        position = None if node in views else next(plain)
        all_results.append(
            known[node] if node in known else graph.call_function(operator.getitem, (returned, position))
        )
    graph.output(tuple(all_results))
    graph.eliminate_dead_code()
    return fx.GraphModule({}, graph)


def _needed(views: Iterable[fx.Node], known: dict[fx.Node, fx.Node]) -> set[fx.Node]:
    needed: set[fx.Node] = set()
    pending = list(views)
    while pending:
        node = pending.pop()
        if node not in needed and node not in known:
            needed.add(node)
            pending.extend(node.all_input_nodes)
    return needed


def _with_strides(graph: fx.Graph, result: fx.Node, owner: fx.Node) -> fx.Node:
    """Return a graph's result, which is contiguous, with the strides in the order of eager mode."""
    value = owner.meta["val"]
    order = sorted(range(value.dim()), key=lambda axis: -optimization_hint(value.stride(axis), _FALLBACK_SIZE))
    if order == sorted(order):
        return result
    permuted = graph.call_function(torch.ops.aten.permute.default, (result, order))
    packed = graph.call_function(torch.ops.aten.contiguous.default, (permuted,))
    inverse = [order.index(axis) for axis in range(len(order))]
    return graph.call_function(torch.ops.aten.permute.default, (packed, inverse))

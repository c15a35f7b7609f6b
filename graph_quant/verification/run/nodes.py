"""The inner level: interprets an FX graph on the CPU and compares every result with the GE graph's.

Each node is computed from the reference's own inputs. Where the inputs of the GE graph's node differ from those, it is
computed a second time from the GE graph's inputs. This separates a node that is wrong from one that inherits an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from ...destination import INT4
from ...ge import first_line, module_path
from ..compare.metrics import Deviation, compare, dtype_name
from ..compare.operators import communicates, compute, is_operator, is_random, is_uninitialised, name_of, writes
from ..compare.quantised import destination_of, distribution, elements
from ..compare.source import line_of
from ..errors import VerificationError
from ..report.report import NodeReport, Status, Thresholds
from .eager import Digest, digest
from .intermediates import Observed, to_host
from .lowering import LoweredNodes
from .progress import ReportProgress

_NUMBERS = (int, float, bool)
# Stands for a result that cannot be computed from the GE graph's inputs: one of them has a wrong shape or dtype, which
# is reported on its own, or the node is a collective, which the other ranks would have to call as well.
_IMPOSSIBLE = object()


class NodeComparison(fx.Interpreter):
    """One comparison. ``nodes`` and ``unobserved`` are its results.

    ``digests`` are of the reference's tensors, by the node of Dynamo's graph that they belong to; ``packed`` has the
    digests of those that hold int4.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        observed: Observed,
        lowering: LoweredNodes,
        thresholds: Thresholds,
        report_progress: ReportProgress,
    ) -> None:
        super().__init__(module)
        self.nodes: list[NodeReport] = []
        self.unobserved: list[str] = []
        self.digests: dict[str, set[Digest]] = {}
        self.packed: set[bytes] = set()
        self._observed = observed
        self._lowering = lowering
        self._thresholds = thresholds
        self._report_progress = report_progress
        self._of_graph: dict[fx.Node, Any] = {}  # results of the graph that are not the reference's
        self._order = {node: number for number, node in enumerate(module.graph.nodes, 1)}

    def run_node(self, n: fx.Node) -> Any:
        self._report_progress(self._order[n] / len(self._order))
        result = self._call(n) if n.op == "call_function" else super().run_node(n)
        origins = n.meta.get("from_node")
        if origins and n.op == "call_function":
            digests = self.digests.setdefault(origins[0].name, set())
            digests.update(digest(value) for value in _as_list(result) if isinstance(value, Tensor))
        if n.op == "get_attr" and isinstance(result, Tensor):
            result = to_host(result)
        for done in self.user_to_last_uses.get(n, ()):
            self._of_graph.pop(done, None)
        return result

    def _call(self, n: fx.Node) -> Any:
        seen = self._observed.get(n.name, {})
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        try:
            result = compute(n, args, kwargs)
        except Exception as error:
            return self._adopt(n, seen, Status.UNKNOWN, f"no reference: {first_line(error)}")
        if is_random(n) and seen:
            return self._adopt(n, seen, Status.RANDOM, "")
        if is_uninitialised(n) and seen:
            return self._adopt(n, seen, Status.UNKNOWN, "holds what memory held")
        own = self._compute_from_graph(n)
        if not seen:
            if own is not None and own is not _IMPOSSIBLE:
                self._of_graph[n] = own
            if is_operator(n) and _has_tensor(result):
                self.unobserved.append(n.name)
            return result
        self._compare(n, result, own, seen)
        return result

    def _compute_from_graph(self, n: fx.Node) -> Any:
        """The node computed from the GE graph's inputs; None where they equal the reference's."""
        if not any(source in self._of_graph for source in n.all_input_nodes) or writes(n):
            return None
        if communicates(n):
            return _IMPOSSIBLE

        def fetch(source: fx.Node) -> Any:
            return self._of_graph[source] if source in self._of_graph else self.env[source]

        try:
            return compute(n, fx.node.map_arg(n.args, fetch), fx.node.map_arg(n.kwargs, fetch))
        except Exception:
            return _IMPOSSIBLE

    def _compare(self, n: fx.Node, result: Any, own: Any, seen: Mapping[int, Tensor]) -> None:
        expected = _as_list(result)
        local = expected if own is None or own is _IMPOSSIBLE else _as_list(own)
        of_graph = list(local)
        differs = own is not None
        for position, value in enumerate(expected):
            if position not in seen or not isinstance(value, (Tensor, *_NUMBERS)):
                continue
            compared_with = seen[position] if own is _IMPOSSIBLE else local[position]
            report = self._report(n, position, len(expected), value, compared_with, seen[position])
            self.nodes.append(report)
            differs |= not report.difference.equal
            of_graph[position] = _with_strides_of(seen[position], value)
        if differs:
            self._of_graph[n] = type(result)(of_graph) if isinstance(result, (list, tuple)) else of_graph[0]

    def _report(self, n: fx.Node, position: int, count: int, value: Any, local: Any, seen: Tensor) -> NodeReport:
        value, local = as_tensor(value, seen), as_tensor(local, seen)
        ge_nodes = self._lowering.ge_names(n.name)
        destination = destination_of(n, [node.type for node in ge_nodes], value)
        if destination is INT4:
            self.packed.add(digest(value)[2])
        shown = (elements(value, destination), elements(seen, destination))
        difference = compare(*shown)
        own = difference if local is value else compare(local, seen)
        return NodeReport(
            fx=f"{n.name}[{position}]" if count > 1 else n.name,
            op=name_of(n),
            status=self._status(difference, own),
            difference=difference,
            dtype=destination.name if destination else dtype_name(value),
            shape=tuple(shown[0].shape),
            ge=ge_nodes,
            line=line_of(n.stack_trace),
            module=module_path(n.meta),
            through=self._through(n) if not difference.equal else (),
            distribution=distribution(destination, *shown) if destination and not difference.mismatch else None,
        )

    def _status(self, difference: Deviation, own: Deviation) -> Status:
        if difference.equal:
            return Status.EQUAL
        if self._thresholds.accept(difference):
            return Status.CLOSE
        return Status.INHERITED if self._thresholds.accept(own) else Status.DIFFERS

    def _adopt(self, n: fx.Node, seen: Mapping[int, Tensor], status: Status, note: str) -> Any:
        """Report a node without a reference, and continue with the GE graph's result."""
        value = n.meta.get("val")
        several = isinstance(value, (list, tuple))
        expected = list(value) if several else [value]  # type: ignore[arg-type]
        missing = [index for index, fake in enumerate(expected) if isinstance(fake, Tensor) and index not in seen]
        if missing:
            raise VerificationError(f"{n.name} ({name_of(n)}): {note}, and the graph's result cannot be seen")
        for position, tensor in seen.items():
            self.nodes.append(
                NodeReport(
                    fx=f"{n.name}[{position}]" if several else n.name,
                    op=name_of(n),
                    status=status,
                    difference=Deviation(False, tensor.numel()),
                    dtype=dtype_name(tensor),
                    shape=tuple(tensor.shape),
                    ge=self._lowering.ge_names(n.name),
                    line=line_of(n.stack_trace),
                    module=module_path(n.meta),
                    note=note,
                )
            )
        results = [seen.get(index) for index in range(len(expected))]
        return tuple(results) if several else results[0]

    def _through(self, n: fx.Node) -> tuple[str, ...]:
        """The unobserved nodes between this one and the nearest observed ones."""
        hidden = set(self.unobserved)
        between: list[fx.Node] = []
        waiting = list(n.all_input_nodes)
        while waiting:
            node = waiting.pop()
            if (node.name in hidden or not is_operator(node)) and node not in between and node.op == "call_function":
                between.append(node)
                waiting.extend(node.all_input_nodes)
        return tuple(node.name for node in sorted(between, key=self._order.__getitem__) if node.name in hidden)


def _as_list(result: Any) -> Sequence[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _has_tensor(result: Any) -> bool:
    return any(isinstance(value, Tensor) for value in _as_list(result))


def as_tensor(value: Any, like: Tensor) -> Tensor:
    """A tensor as it is; a number as a tensor with the dtype and shape of ``like``."""
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=like.dtype).reshape(like.shape)


def _with_strides_of(seen: Tensor, like: Any) -> Any:
    """A result of the GE graph with the strides that the FX graph expects: those of GE nodes may differ."""
    if not isinstance(like, Tensor):
        return seen.item()
    if seen.shape != like.shape or seen.stride() == like.stride():
        return seen
    return torch.empty_like(like, dtype=seen.dtype).copy_(seen)

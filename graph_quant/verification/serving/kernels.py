"""Pairs the kernels of a graph with those of eager execution, and finds the first whose results differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from torch import Tensor

from ...host.capture import TracedKernel
from ..compare.metrics import Deviation, compare, dtype_name

_LAYER = re.compile(r".*?\.\d+(?=\.)")


def find_first_difference(
    graph: Sequence[TracedKernel], eager: Sequence[TracedKernel], tokens: int, padded: int
) -> str:
    """Describe the first kernel whose results differ.

    Rows of padding are not compared: engines leave anything in them. With padding, results that have no row for each
    token are not compared either, as their rows may be those of padding in another order.
    """
    names = [_name(kernel) for kernel in graph], [_name(kernel) for kernel in eager]
    unpaired = Unpaired()
    at_graph = at_eager = 0
    for block in SequenceMatcher(a=names[0], b=names[1], autojunk=False).get_matching_blocks():
        for kernel in eager[at_eager : block.b]:
            unpaired.enter_layer(kernel.module)
            unpaired.eager.append(_name(kernel))
        unpaired.graph += names[0][at_graph : block.a]
        for index in range(block.size):
            ours, theirs = graph[block.a + index], eager[block.b + index]
            unpaired.enter_layer(theirs.module)
            for result, reference in _comparable(ours, theirs, tokens, padded):
                deviation = compare(reference, result)
                if not deviation.equal:
                    return _describe(ours, theirs, block.a + index, deviation, reference) + str(unpaired)
        at_graph, at_eager = block.a + block.size, block.b + block.size
    return f"no kernel that both run differs{unpaired}"


@dataclass
class Unpaired:
    """The kernels of a layer that only the graph runs, such as fused ones, and those that only eager execution runs."""

    graph: list[str] = field(default_factory=list)
    eager: list[str] = field(default_factory=list)
    _layer: str = ""

    def enter_layer(self, module: str) -> None:
        """Forget the kernels of another layer."""
        layer = _LAYER.match(module)
        if layer is not None and layer[0] != self._layer:
            self._layer, self.graph, self.eager = layer[0], [], []

    def __str__(self) -> str:
        if not self.graph and not self.eager:
            return ""
        return f"; in this layer only the graph runs {_join(self.graph)}, only eager execution {_join(self.eager)}"


def _name(kernel: TracedKernel) -> str:
    return kernel.operator.partition(".")[0]


def _comparable(graph: TracedKernel, eager: TracedKernel, tokens: int, padded: int) -> Iterator[tuple[Tensor, Tensor]]:
    for result, reference in zip(graph.results, eager.results, strict=False):
        if tokens == padded or result.shape != reference.shape:
            if result.shape == reference.shape:
                yield result, reference
        elif result.dim() and result.shape[0] == padded:
            yield result[:tokens], reference[:tokens]


def _describe(graph: TracedKernel, eager: TracedKernel, index: int, deviation: Deviation, reference: Tensor) -> str:
    shape = ",".join(map(str, reference.shape))
    where = f" in {eager.module}" if eager.module else ""
    return (
        f"the first kernel that differs is {graph.operator} (kernel {index} of the step){where}: "
        f"{describe_deviation(deviation)} of {dtype_name(reference)}[{shape}]"
    )


def _join(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(name.partition("::")[2] for name in names)) or "nothing else"


def describe_deviation(deviation: Deviation) -> str:
    """Return how many values differ, and the largest error."""
    if deviation.mismatch:
        return deviation.mismatch
    return f"{deviation.differing} of {deviation.total} values differ by up to {deviation.max_error:.3g}"

"""A dump, and what can be asked of it."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ge.errors import GeError
from ..ge.graph import INPUT_TYPES, OUTPUT_TYPE, Node, Source, build, topological
from .errors import DumpError
from .read.formats import read
from .read.txt import Progress

if TYPE_CHECKING:
    import torch

    from .analyse.diff import Difference
    from .analyse.lint import Finding
    from .graph.idioms import Idiom
    from .graph.infer import Inference


_SHOWN_TYPES = 4


class Dump:
    """A GE graph: from a file, or from a graph in this process."""

    def __init__(self, graph_def: Any, sources: dict[str, Source] | None = None, kind: str = "live") -> None:
        self.graph_def = graph_def
        self.kind = kind
        try:
            self.nodes: dict[str, Node] = build(graph_def, sources)
            self.order: list[Node] = topological(self.nodes)
        except GeError as error:
            raise DumpError(str(error)) from None
        self._inference: Inference | None = None

    def __repr__(self) -> str:
        kinds = [node.type for node in self.nodes.values()]
        inputs = sum(kind in INPUT_TYPES for kind in kinds)
        outputs = sum(len(node.inputs) for node in self.nodes.values() if node.type == OUTPUT_TYPE)
        ends = f"{inputs} input{'s' * (inputs != 1)}, {outputs} output{'s' * (outputs != 1)}"
        common = ", ".join(f"{count} {kind}" for kind, count in Counter(kinds).most_common(_SHOWN_TYPES))
        return f"<Dump ({self.kind}) of {len(kinds)} nodes: {ends}; {common}>"

    def _repr_html_(self) -> str:
        """The graph, where a notebook shows it."""
        self.infer()
        from .analyse.cost import Costs
        from .render.to_html import to_html

        page = html.escape(to_html(self, Costs(self), repr(self)), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'

    @cached_property
    def consumers(self) -> dict[str, list[tuple[Node, int]]]:
        """For every node, who reads it: the consumer and the position of its input."""
        readers: dict[str, list[tuple[Node, int]]] = {name: [] for name in self.nodes}
        for node in self.nodes.values():
            for position, edge in enumerate(node.inputs):
                if edge.node:
                    readers[edge.node].append((node, position))
        return readers

    @cached_property
    def position(self) -> dict[str, int]:
        """The place of every node in the execution order."""
        return {node.name: place for place, node in enumerate(self.order)}

    @property
    def inference(self) -> Inference:
        """The dtype and shape of every output, from the host's kernels run on fake tensors."""
        return self.infer()

    def infer(self, progress: Progress | None = None) -> Inference:
        """``inference``, with ``progress`` told the share that is done."""
        if self._inference is None:
            import torch  # noqa: F401  (alone and first: what it activates imports modules that import it)

            from .graph.infer import infer

            self._inference = infer(self, progress)
        return self._inference

    @cached_property
    def idioms(self) -> list[Idiom]:
        """Chains of nodes that say one thing."""
        from .graph.idioms import find_idioms

        return find_idioms(self)

    def to_fx(self) -> torch.fx.GraphModule:
        """The graph as a module that computes it on this machine."""
        from .analyse.replay import to_fx

        return to_fx(self)

    def diff(self, other: Dump) -> Difference:
        """What changed from this dump to ``other``."""
        from .analyse.diff import compare

        return compare(self, other)

    def lint(self, ignore: Sequence[str] = ()) -> list[Finding]:
        """What is wrong or wasteful in the graph, rule by rule."""
        from .analyse.lint import lint

        return lint(self, ignore)


def _ignore_progress(share: float) -> None:  # noqa: ARG001
    return


def load(path: str | Path, source: str | Path | None = None, progress: Any = None) -> Dump:
    """Read the dump at ``path``; Python lines come from it, or from ``source``, its ``py`` twin."""
    report = progress or _ignore_progress
    twin = _twin_sources(Path(source)) if source is not None else {}
    try:
        kind, graph_def, sources = read(Path(path), report)
        return Dump(graph_def, {**sources, **twin}, kind)
    except GeError as error:
        raise DumpError(f"{path}: {error}") from None


def _twin_sources(path: Path) -> dict[str, Source]:
    """The sources that a ``py`` dump tells; not of its constants, which it writes without their names."""
    try:
        kind, graph_def, sources = read(path, _ignore_progress)
    except GeError as error:
        raise DumpError(f"the source {path}: {error}") from None
    if kind != "py":
        raise DumpError(f"the source must be a py dump, {path} is {kind}")
    named = {op.name for op in graph_def.op if op.type != "Const"}
    return {name: source for name, source in sources.items() if name in named}


def from_graph(graph: Any) -> Dump:
    """A dump of a live graph: TorchAir's ``GeGraph``, with the Python line of each node, or a GraphDef."""
    graph_def = getattr(graph, "_proto", graph)
    if not hasattr(graph_def, "op"):
        raise TypeError(f"from_graph: graph must be a GeGraph or a GraphDef, got {type(graph).__name__}")
    return Dump(graph_def, _live_sources(graph) if graph_def is not graph else None)


def _live_sources(graph: Any) -> dict[str, Source]:
    """What the host noted beside a graph while TorchAir lowered it."""
    from ..host.engine.provenance import sources_of

    return sources_of(graph)

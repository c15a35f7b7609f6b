"""A dump, and what can be asked of it."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..ge import INPUT_TYPES, OUTPUT_TYPE, GeError, Node, Source, build_nodes, format_attributes, sort_topologically
from .errors import DumpError
from .read.file_contents import CUT_OFF, GE_KINDS, PLANNED_KINDS, Progress
from .read.formats import read
from .read.subgraph_roles import role

if TYPE_CHECKING:
    import torch

    from .analyse.diff import Difference
    from .analyse.lint import Finding
    from .graph.infer import Inference
    from .graph.outline import Item
    from .graph.patterns import Idiom


_SHOWN_TYPES = 4
_DEEPEST = 64


class Callee(NamedTuple):
    """A graph that a node calls, and what it is to that node: ``f``, ``then_branch``, ``body``."""

    role: str
    graph: Dump


class Dump:
    """A GE graph, with the graphs that its nodes call: from a file, or from a graph in this process.

    ``missing`` says in words what the file does not tell.
    """

    def __init__(
        self,
        graph_def: Any,
        sources: dict[str, Source] | None = None,
        kind: str = "live",
        others: Sequence[Any] = (),
        missing: Sequence[str] = (),
    ) -> None:
        self.graph_def = graph_def
        self.kind = kind
        self.missing = list(missing)
        try:
            self.nodes: dict[str, Node] = build_nodes(graph_def, sources)
            self.order: list[Node] = sort_topologically(self.nodes)
        except GeError as error:
            raise DumpError(str(error)) from None
        self._inference: Inference | None = None
        self.calls: dict[str, list[Callee]] = {}
        self.uncalled: list[Dump] = []
        if others:
            self._link(sources, {other.name: other for other in others})

    def _link(self, sources: dict[str, Source] | None, others: dict[str, Any]) -> None:
        """Make the graphs that nodes call, each once, and those that no node calls."""
        made: dict[str, Dump] = {}

        def enter(dump: Dump, above: tuple[str, ...]) -> None:
            for node in dump.order:
                names = [name for name in node.proto.subgraph_name if name in others]
                for place, name in enumerate(names):
                    if name in above or len(above) > _DEEPEST:
                        raise DumpError(f"{node.name}: the graphs call each other in a circle, through {name}")
                    called = role(node.type, place, len(names) > 1)
                    dump.calls.setdefault(node.name, []).append(Callee(called, get(name, above)))

        def get(name: str, above: tuple[str, ...]) -> Dump:
            if name not in made:
                made[name] = Dump(others[name], sources, self.kind)
                enter(made[name], (*above, name))
            return made[name]

        enter(self, (self.name,))
        self.uncalled = [get(name, (self.name,)) for name in others if name not in made]

    @property
    def name(self) -> str:
        """The graph's own name."""
        return str(self.graph_def.name)

    @property
    def trusts_descs(self) -> bool:
        """Whether the descs are what was inferred, as in GE's own dumps, rather than what a converter left there."""
        return self.kind in GE_KINDS or self.kind == "fx"

    @cached_property
    def is_scheduled(self) -> bool:
        """Whether GE has given the nodes their streams and memory."""
        return any(node.proto.stream_id > 0 or node.proto.output_i for node in self.order)

    def attributes(self, node: Node) -> dict[str, str]:
        """The attributes of a node that say what it computes, in words."""
        return format_attributes(node.proto, declared=self.kind in PLANNED_KINDS)

    def graphs(self) -> Iterator[Dump]:
        """Itself and all graphs that are called from it, each once, callers first."""
        seen: dict[int, Dump] = {}
        waiting = [self]
        while waiting:
            dump = waiting.pop(0)
            if id(dump) not in seen:
                seen[id(dump)] = dump
                yield dump
                waiting += [call.graph for calls in dump.calls.values() for call in calls] + dump.uncalled

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
            from .graph.symbol_limits import check_inputs

            check_inputs(node for graph in self.graphs() for node in graph.order)
            import torch  # noqa: F401  (alone and first: what it activates imports modules that import it)

            from .graph.infer import infer

            self._take(infer(self, progress))
            for uncalled in self.uncalled:
                uncalled.infer()
        return self._inference  # type: ignore[return-value]

    def _take(self, inference: Inference) -> None:
        """Keep what was inferred, of the called graphs too."""
        self._inference = inference
        for calls in self.calls.values():
            for call in calls:
                if call.graph.name in inference.inner:
                    call.graph._take(inference.inner[call.graph.name])

    @cached_property
    def idioms(self) -> list[Idiom]:
        """Chains of nodes that say one thing."""
        from .graph.patterns import find_idioms

        return find_idioms(self)

    @cached_property
    def outline(self) -> Item:
        """The modules that the graph came from, or the layers found in it; each kind of layer once."""
        from .graph.outline import outline

        self.infer()
        return outline(self)

    def to_fx(self) -> torch.fx.GraphModule:
        """The graph as a module that computes it on this machine."""
        from .analyse.replay import to_fx

        return to_fx(self)

    def diff(self, other: Dump) -> Difference:
        """What changed from this dump to ``other``."""
        from .analyse.diff import compare

        return compare(self, other)

    @property
    def is_cut_off(self) -> bool:
        """Whether the file stops in the middle of a graph."""
        return CUT_OFF in self.missing

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
        found = read(Path(path), report)
        return Dump(found.graphs[0], {**found.sources, **twin}, found.kind, found.graphs[1:], found.missing)
    except GeError as error:
        raise DumpError(f"{path}: {error}") from None


def _twin_sources(path: Path) -> dict[str, Source]:
    """The sources that a ``py`` dump tells; not of its constants, which it writes without their names."""
    try:
        found = read(path, _ignore_progress)
    except GeError as error:
        raise DumpError(f"the source {path}: {error}") from None
    if found.kind != "py":
        raise DumpError(f"the source must be a py dump, {path} is {found.kind}")
    named = {op.name for op in found.graphs[0].op if op.type != "Const"}
    return {name: source for name, source in found.sources.items() if name in named}


def from_graph(graph: Any) -> Dump:
    """A dump of a live graph: TorchAir's ``GeGraph``, with the Python line of each node, or a GraphDef."""
    graph_def = getattr(graph, "_proto", graph)
    if not hasattr(graph_def, "op"):
        raise TypeError(f"from_graph: graph must be a GeGraph or a GraphDef, got {type(graph).__name__}")
    return Dump(graph_def, _live_sources(graph) if graph_def is not graph else None)


def _live_sources(graph: Any) -> dict[str, Source]:
    """What the host noted beside a graph while TorchAir lowered it."""
    from ..ge import sources_of

    return sources_of(graph)

"""A dump: its graph, and what can be computed from it."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..ge import INPUT_TYPES, OUTPUT_TYPE, GeError, Node, Source, build_nodes, format_attributes, sort_topologically
from .errors import DumpError, renamed
from .read.file_contents import ANNOTATED_KINDS, GE_KINDS, TRUNCATED, Progress
from .read.formats import read_file
from .read.subgraph_roles import role_name

if TYPE_CHECKING:
    import torch

    from .analyse.diff import Difference
    from .analyse.lint import Finding
    from .graph.inference import Inference
    from .graph.outline import Item
    from .graph.patterns import Pattern


_SHOWN_TYPES = 4
_DEEPEST = 64


class Callee(NamedTuple):
    """A graph that a node calls, and its role there: ``f``, ``then_branch``, ``body``."""

    role: str
    graph: Dump


class Dump:
    """A GE graph with the graphs that its nodes call; made by `load` or `from_graph`.

    Args:
        graph_def: GE's GraphDef.
        sources: The Python line of each node, by node name.
        kind: The format of the file; ``live`` for a graph of this process.
        others: Further GraphDefs of the same file: the graphs that nodes call.
        missing: What the file does not contain, in words.

    Attributes:
        nodes: The nodes by name.
        order: The nodes in execution order.
        calls: For each calling node, the graphs that it calls.
        uncalled: Graphs of the file that no node calls.

    Raises:
        DumpError: If the graph is malformed or its graphs call each other in a circle.

    Examples:
        >>> dump = graph_quant.dumps.load("graph.txt")
        >>> print(dump)
        >>> [finding.message for finding in dump.lint()]
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
        """Create the graphs that nodes call, each once, and those that no node calls."""
        linked: dict[str, Dump] = {}

        def enter(dump: Dump, callers: tuple[str, ...]) -> None:
            for node in dump.order:
                names = [name for name in node.proto.subgraph_name if name in others]
                for index, name in enumerate(names):
                    if name in callers or len(callers) > _DEEPEST:
                        raise DumpError(f"{node.name}: the graphs call each other in a circle, through {name}")
                    called = role_name(node.type, index, len(names) > 1)
                    dump.calls.setdefault(node.name, []).append(Callee(called, get(name, callers)))

        def get(name: str, callers: tuple[str, ...]) -> Dump:
            if name not in linked:
                linked[name] = Dump(others[name], sources, self.kind)
                enter(linked[name], (*callers, name))
            return linked[name]

        enter(self, (self.name,))
        self.uncalled = [get(name, (self.name,)) for name in others if name not in linked]

    @property
    def name(self) -> str:
        """The name of the graph."""
        return str(self.graph_def.name)

    @property
    def trusts_descs(self) -> bool:
        """Whether descs hold inferred types, as in GE's own dumps, rather than what a converter wrote there."""
        return self.kind in GE_KINDS or self.kind == "fx"

    @cached_property
    def is_scheduled(self) -> bool:
        """Whether GE has assigned streams and memory to the nodes."""
        return any(node.proto.stream_id > 0 or node.proto.output_i for node in self.order)

    def attributes(self, node: Node) -> dict[str, str]:
        """The attributes of a node that determine what it computes, as text."""
        return format_attributes(node.proto, declared=self.kind in ANNOTATED_KINDS)

    def graphs(self) -> Iterator[Dump]:
        """Yield this graph and all graphs called from it, each once, callers first."""
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
        """The interactive page of the graph, for notebooks."""
        self.infer()
        from .analyse.cost import Costs
        from .render.to_html import to_html

        page = html.escape(to_html(self, Costs(self), repr(self)), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'

    @cached_property
    def consumers(self) -> dict[str, list[tuple[Node, int]]]:
        """For every node its readers: the consumer and the index of the input."""
        readers: dict[str, list[tuple[Node, int]]] = {name: [] for name in self.nodes}
        for node in self.nodes.values():
            for position, edge in enumerate(node.inputs):
                if edge.node:
                    readers[edge.node].append((node, position))
        return readers

    @cached_property
    def position(self) -> dict[str, int]:
        """The index of every node in the execution order."""
        return {node.name: index for index, node in enumerate(self.order)}

    @property
    def inference(self) -> Inference:
        """The dtype and shape of every output, inferred by running the host's kernels on fake tensors."""
        return self.infer()

    def infer(self, progress: Progress | None = None) -> Inference:
        """Compute ``inference`` once; ``progress`` is called with the fraction done."""
        if self._inference is None:
            from .graph.symbol_limits import check_inputs

            check_inputs(node for graph in self.graphs() for node in graph.order)
            self._store_inference(self._read_types() or self._infer_by_kernels(progress))
            for uncalled in self.uncalled:
                uncalled.infer()
        return self._inference  # type: ignore[return-value]

    def _read_types(self) -> Inference | None:
        """The types that the file suffices for, without torch."""
        if self.kind == "live":
            return None
        from .graph.stated_types import read_stated_types

        return read_stated_types(self)

    def _infer_by_kernels(self, progress: Progress | None = None) -> Inference:
        import torch  # noqa: F401  (alone and first: what it activates imports modules that import it)

        from .graph.infer import infer

        return infer(self, progress)

    def _store_inference(self, inference: Inference) -> None:
        """Store the inferred types, also in the called graphs."""
        self._inference = inference
        for calls in self.calls.values():
            for call in calls:
                if call.graph.name in inference.inner:
                    call.graph._store_inference(inference.inner[call.graph.name])

    @cached_property
    def patterns(self) -> list[Pattern]:
        """Chains of nodes that together do one thing, such as packing int4."""
        from .graph.patterns import find_patterns

        return find_patterns(self)

    idioms = renamed("patterns")

    @cached_property
    def outline(self) -> Item:
        """The modules that the graph came from, or the repeating layers found in it."""
        from .graph.outline import build_outline

        self.infer()
        return build_outline(self)

    def to_fx(self) -> torch.fx.GraphModule:
        """Import the graph as an FX module of host kernels."""
        from .analyse.replay import to_fx

        return to_fx(self)

    def diff(self, other: Dump) -> Difference:
        """Compare this dump with ``other``."""
        from .analyse.diff import compare_dumps

        return compare_dumps(self, other)

    @property
    def is_cut_off(self) -> bool:
        """Whether the file ends in the middle of a graph."""
        return TRUNCATED in self.missing

    def lint(self, ignore: Sequence[str] = ()) -> list[Finding]:
        """Check the graph against the lint rules; see `graph_quant.dumps.lint`."""
        from .analyse.lint import lint

        return lint(self, ignore)


def _ignore_progress(share: float) -> None:  # noqa: ARG001
    return


def load(path: str | Path, source: str | Path | None = None, progress: Any = None) -> Dump:
    """Read a dump of any supported format.

    Args:
        path: The file, written by TorchAir (txt, pbtxt, py, air), by GE (ge_proto, ge_onnx, ge_readable) or by
            TORCH_COMPILE_DEBUG (FX graphs). The format is detected from the content.
        source: The ``py`` dump of the same graph, from which the Python line of each node is taken.
        progress: A function that is called with the fraction done.

    Returns:
        The dump.

    Raises:
        DumpError: If a file cannot be read, or is not a dump.

    Examples:
        >>> dump = load("dynamo_optimized_graph_1.txt", source="dynamo_optimized_graph_1.py")
    """
    report = progress or _ignore_progress
    twin = _read_twin_sources(Path(source)) if source is not None else {}
    try:
        contents = read_file(Path(path), report)
        return Dump(
            contents.graphs[0], {**contents.sources, **twin}, contents.kind, contents.graphs[1:], contents.missing
        )
    except GeError as error:
        raise DumpError(f"{path}: {error}") from None


def _read_twin_sources(path: Path) -> dict[str, Source]:
    """Read the sources of a ``py`` dump, except those of constants, which it writes without names."""
    try:
        contents = read_file(path, _ignore_progress)
    except GeError as error:
        raise DumpError(f"the source {path}: {error}") from None
    if contents.kind != "py":
        raise DumpError(f"the source must be a py dump, {path} is {contents.kind}")
    named = {op.name for op in contents.graphs[0].op if op.type != "Const"}
    return {name: source for name, source in contents.sources.items() if name in named}


def from_graph(graph: Any) -> Dump:
    """Make a dump of a graph in this process.

    Args:
        graph: TorchAir's ``GeGraph``, whose nodes have Python lines, or a GraphDef.

    Returns:
        The dump, of kind ``live``.

    Raises:
        TypeError: If ``graph`` is neither.

    Examples:
        >>> dump = from_graph(ge_graph)
        >>> dump.inference.types["MatMulV2"]
    """
    graph_def = getattr(graph, "_proto", graph)
    if not hasattr(graph_def, "op"):
        raise TypeError(f"from_graph: graph must be a GeGraph or a GraphDef, got {type(graph).__name__}")
    return Dump(graph_def, _live_sources(graph) if graph_def is not graph else None)


def _live_sources(graph: Any) -> dict[str, Source]:
    """The sources that the host recorded while TorchAir lowered the graph."""
    from ..ge import sources_of

    return sources_of(graph)

"""What TorchAir knows while it lowers and its GE graph does not say: Python lines, names of weights, outputs' devices.

They are noted beside the graph while it is built. A graph read from a file has none of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ...ge import MODULE_PATH, Source, module_path, weight_path

if TYPE_CHECKING:
    from torch.fx import GraphModule

_SOURCES = "_graph_quant_sources"
_DEVICES = "_graph_quant_output_devices"
_NOWHERE = Source()
# The path of each input that is a weight, in the order in which Dynamo's graph takes them.
_weights: ContextVar[list[str]] = ContextVar("_weights")
# The last place in a stack trace, and the code there.
_PLACE = re.compile(
    r'.*File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>[^\n]*)(?:\n *(?P<code>[^\n]*))?', re.DOTALL
)


def sources_of(ge_graph: Any) -> dict[str, Source]:
    """The source of each GE node by name, as far as it was noted."""
    noted: dict[str, Source] = vars(ge_graph).get(_SOURCES, {})
    return noted


def output_devices_of(ge_graph: Any) -> list[str]:
    """The device type of each output, as traced; empty where it was not noted."""
    noted: list[str] = vars(ge_graph).get(_DEVICES, [])
    return noted


def note_provenance(concrete_graph: type) -> None:
    """Make TorchAir's GeConcreteGraph note where its nodes come from and where its outputs belong."""
    concrete_graph.converter_context = _noting_sources(concrete_graph.converter_context)  # type: ignore[attr-defined]
    concrete_graph.parse_output = _noting_devices(concrete_graph.parse_output)  # type: ignore[attr-defined]
    concrete_graph.dump = _telling_modules(concrete_graph.dump)  # type: ignore[attr-defined]


def knowing_weights(compile_region: Callable[..., Any]) -> Callable[..., Any]:
    """TorchAir's way from Dynamo's graph to lowered ones, with the sources of inputs kept on the way."""

    def compile_knowing(gm: GraphModule, *args: Any, **kwargs: Any) -> Any:
        sources = (getattr(node, "_dynamo_source", None) for node in gm.graph.find_nodes(op="placeholder"))
        token = _weights.set([weight_path(source.name) if source else "" for source in sources])
        try:
            return compile_region(gm, *args, **kwargs)
        finally:
            _weights.reset(token)

    return compile_knowing


def _noting_sources(context: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def converter_context(self: Any, *, node: Any) -> Iterator[None]:
        before = len(self.graph.op)
        with context(self, node=node):
            yield
        source = source_of(node)
        noted = vars(self.graph).setdefault(_SOURCES, {})
        for op in self.graph.op[before:]:
            noted[op.name] = source

    return converter_context


def source_of(node: Any) -> Source:
    """An FX node, and the innermost Python line behind it."""
    path = module_path(node.meta) or _weight(node)
    found = _PLACE.match(node.stack_trace or "")
    if found is None:
        return Source(node.name, module=path)
    code = (found["code"] or "").strip()
    return Source(node.name, found["file"], int(found["line"]), found["function"].strip(), code=code, module=path)


def _weight(node: Any) -> str:
    """The path of the weight that an input is."""
    place, weights = getattr(node.meta.get("desc"), "idx", None), _weights.get([])
    return weights[place] if node.op == "placeholder" and place is not None and place < len(weights) else ""


def _telling_modules(dump: Callable[..., Any]) -> Callable[..., Any]:
    """A dump that carries the module path of each node; the graph itself, which GE gets, does not."""

    def dump_with_modules(self: Any, *args: Any, **kwargs: Any) -> Any:
        noted = sources_of(self.graph)
        marked = [op for op in self.graph.op if noted.get(op.name, _NOWHERE).module]
        for op in marked:
            op.attr[MODULE_PATH].s = noted[op.name].module.encode()
        try:
            return dump(self, *args, **kwargs)
        finally:
            for op in marked:
                del op.attr[MODULE_PATH]

    return dump_with_modules


def _noting_devices(parse: Callable[..., Any]) -> Callable[..., Any]:
    def parse_output(self: Any, *args: Any, **kwargs: Any) -> Any:
        parsed = parse(self, *args, **kwargs)
        vars(self.graph)[_DEVICES] = [output.meta.device.type for output in self.outputs]
        return parsed

    return parse_output

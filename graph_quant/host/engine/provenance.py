"""What TorchAir knows while it lowers and its GE graph does not say: the Python line, and the device of outputs.

Both are noted beside the graph while it is built. A graph read from a file has neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .nodes import Origin

_ORIGINS = "_graph_quant_origins"
_DEVICES = "_graph_quant_output_devices"


def origins_of(ge_graph: Any) -> dict[str, Origin]:
    """The origin of each GE node by name, as far as it was noted."""
    noted: dict[str, Origin] = vars(ge_graph).get(_ORIGINS, {})
    return noted


def output_devices_of(ge_graph: Any) -> list[str]:
    """The device type of each output, as traced; empty where it was not noted."""
    noted: list[str] = vars(ge_graph).get(_DEVICES, [])
    return noted


def note_provenance(concrete_graph: type) -> None:
    """Make TorchAir's GeConcreteGraph note where its nodes come from and where its outputs belong."""
    concrete_graph.converter_context = _noting_origins(concrete_graph.converter_context)  # type: ignore[attr-defined]
    concrete_graph.parse_output = _noting_devices(concrete_graph.parse_output)  # type: ignore[attr-defined]


def _noting_origins(context: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def converter_context(self: Any, *, node: Any) -> Iterator[None]:
        before = len(self.graph.op)
        with context(self, node=node):
            yield
        origin = Origin(node.name, _line_of(node.stack_trace))
        noted = vars(self.graph).setdefault(_ORIGINS, {})
        for op in self.graph.op[before:]:
            noted[op.name] = origin

    return converter_context


def _line_of(stack_trace: str | None) -> str:
    """The innermost Python line of a stack trace: file, line and code."""
    if not stack_trace:
        return ""
    location, *code = stack_trace.split("File ")[-1].strip().splitlines()
    return ": ".join(part.strip() for part in (location, *code[:1]) if part.strip())


def _noting_devices(parse: Callable[..., Any]) -> Callable[..., Any]:
    def parse_output(self: Any, *args: Any, **kwargs: Any) -> Any:
        parsed = parse(self, *args, **kwargs)
        vars(self.graph)[_DEVICES] = [output.meta.device.type for output in self.outputs]
        return parsed

    return parse_output

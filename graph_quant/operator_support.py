"""Which of torch_npu's operators run here, read from what is registered: eagerly, in graphs, with rules checked."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass
from typing import Any

import torch

# A node that a converter does not make in its own text.
UNKNOWN = "?"


@dataclass(frozen=True)
class OperatorSupport:
    """One operator. ``missing`` are the GE nodes its converter can emit and the host has no kernel for."""

    name: str
    family: str
    eager: bool
    rules: bool
    lowered_by: str
    missing: tuple[str, ...]

    @property
    def graph(self) -> bool:
        """Whether a graph with it runs on the host."""
        return bool(self.lowered_by) and not self.missing


def supported_operators() -> list[OperatorSupport]:
    """The operators of ``torch.ops.npu`` that TorchAir or this package lowers, and those that run eagerly here."""
    import torchair  # noqa: F401  (its import brings the converters in)

    from .converters.decompositions import DECOMPOSITIONS
    from .converters.lowering import lowered
    from .dispatcher import overload
    from .host.kernels import KERNELS
    from .meta import RECORDS

    ours = lowered() | {broken_up.name() for broken_up in DECOMPOSITIONS}
    _load_upstream_converters()
    found = []
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if not name.startswith("npu::"):
            continue
        record, converter = RECORDS.get(name), getattr(overload(name), "_ge_converter", None)
        if record is None and converter is None:
            continue
        nodes = () if name in ours or converter is None else _nodes(converter)
        found.append(
            OperatorSupport(
                name,
                _family(record),
                record is not None and record.reference is not None,
                record is not None and record.rules is not None,
                _lowered_by(name, ours, converter),
                tuple(sorted({node for node in nodes if node not in KERNELS and node != "Const"})),
            )
        )
    return found


def _lowered_by(name: str, ours: set[str], converter: Any) -> str:
    """Who makes nodes of an operator: nobody, where the lowering refuses every call."""
    from .converters.lowering import LOWERINGS

    if name in LOWERINGS.names() and LOWERINGS[name].__annotations__.get("return") == "NoReturn":
        return ""
    return "graph_quant" if name in ours else ("TorchAir" if converter is not None else "")


def _load_upstream_converters() -> None:
    from torchair._ge_concrete_graph.ge_converter import custom  # noqa: F401


def _family(record: Any) -> str:
    if record is None or record.rules is None:
        return ""
    parts = record.rules.__module__.split(".")
    return parts[2] if len(parts) > 3 else ""


def _nodes(converter: Any) -> set[str]:
    """The GE nodes that a converter's own text can make."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(converter))))
    made = (_made(node) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {name for name in made if name is not None} or {UNKNOWN}


def _made(call: ast.Call) -> str | None:
    """The node that ``ge.Type(...)`` or ``custom_op("Type", ...)`` makes."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in ("custom_op", "ge_op"):
        return _first_text(call)
    of_ge = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "ge"
    return name if of_ge and name[:1].isupper() else None


def _first_text(call: ast.Call) -> str | None:
    given = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "op_type")]
    return next((str(each.value) for each in given if isinstance(each, ast.Constant)), None)

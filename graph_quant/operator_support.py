"""Which operators are supported eagerly, in graphs and by rules, read from what is registered."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass
from typing import Any

import torch

from .chip import A2_AND_A3, Chip, current
from .releases.schemas import releases, releases_without

# Stands for nodes that are not named in a converter's source.
UNKNOWN = "?"


@dataclass(frozen=True)
class OperatorSupport:
    """One operator. ``missing`` are the GE nodes its converter can emit and the host has no kernel for.

    ``defined_by`` is torch_npu, ATB, another package, or a compiled extension that a stand-in answers for.
    ``releases`` are those of torch_npu that have the operator, where the installed one lacks it.
    """

    name: str
    defined_by: str
    family: str
    eager: bool
    rules: bool
    lowered_by: str
    missing: tuple[str, ...]
    releases: tuple[str, ...] = ()

    @property
    def graph(self) -> bool:
        """Whether a graph with it runs on the host."""
        return bool(self.lowered_by) and not self.missing


def supported_operators(on: Chip | None = None) -> list[OperatorSupport]:
    """Return the operators of ``torch.ops.npu`` that are lowered or run eagerly, and those of other packages.

    Stand-ins of extensions that are not installed are loaded, and all their operators are listed.
    On a chip that an operator is not described for, it neither runs nor lowers; ``on`` is the chip in use by default.
    """
    import torchair  # noqa: F401  (its import brings the converters in)

    from .converters.decompositions import DECOMPOSITIONS
    from .converters.lowering import lowered
    from .dispatcher import is_defined, overload
    from .host.kernels import KERNELS
    from .meta import RECORDS
    from .start import stand_ins

    stand_ins.load_absent()
    ours = lowered() | {operator.name() for operator in DECOMPOSITIONS}
    _load_upstream_converters()
    operators = []
    npu = {name for name in torch._C._dispatch_get_all_op_names() if name.startswith("npu::")}
    for name in sorted(npu | RECORDS.names() | stand_ins.operators()):
        if not is_defined(name):
            if name.startswith("npu::"):
                operators.append(_absent(name, RECORDS[name]))
            continue
        record, converter = RECORDS.get(name), getattr(overload(name), "_ge_converter", None)
        origin = stand_ins.origin(name)
        if record is None and converter is None and origin is None:
            continue
        described = (on or current()) in (A2_AND_A3 if record is None else record.chips)
        nodes = () if name in ours or converter is None else _nodes(converter)
        operators.append(
            OperatorSupport(
                name,
                origin or _package(name, record),
                origin or _family(record),
                described and record is not None and record.reference is not None,
                record is not None and record.rules is not None,
                _lowered_by(name, ours, record, converter) if described else "",
                tuple(sorted({node for node in nodes if node not in KERNELS and node != "Const"})),
            )
        )
    return operators


def _absent(name: str, record: Any) -> OperatorSupport:
    """Return an operator that the installed torch_npu lacks."""
    lacking = releases_without(name)
    having = tuple(release for release in releases() if release not in lacking)
    return OperatorSupport(name, _package(name, record), _family(record), False, False, "", (), having)


def _lowered_by(name: str, ours: set[str], record: Any, converter: Any) -> str:
    """Return the package that lowers an operator; "" if there is none, or if it refuses every call."""
    from .converters.lowering import LOWERINGS

    if name in LOWERINGS.names() and LOWERINGS[name].__annotations__.get("return") == "NoReturn":
        return ""
    if name in ours:
        return _module(record).partition(".")[0] or "graph_quant"
    return "TorchAir" if converter is not None else ""


def _package(name: str, record: Any) -> str:
    """Return the package that defines an operator which no stand-in defines."""
    namespace = name.partition("::")[0]
    known = {"npu": "torch_npu", "atb": "ATB"}
    return known.get(namespace) or _module(record).partition(".")[0] or namespace


def _load_upstream_converters() -> None:
    from torchair._ge_concrete_graph.ge_converter import custom  # noqa: F401


def _module(record: Any) -> str:
    """Return the module of an operator's rules."""
    return "" if record is None or record.rules is None else str(record.rules.__module__)


def _family(record: Any) -> str:
    """Return the family of an operator, or the package of one from another package."""
    package, *parts = _module(record).split(".")
    if package != "graph_quant":
        return package
    return parts[1] if len(parts) > 2 else ""


def _nodes(converter: Any) -> set[str]:
    """Return the GE nodes that a converter's source names."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(converter))))
    names = (_node_name(node) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {name for name in names if name is not None} or {UNKNOWN}


def _node_name(call: ast.Call) -> str | None:
    """Return the GE type of ``ge.Type(...)`` or ``custom_op("Type", ...)``; None for other calls."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in ("custom_op", "ge_op"):
        return _first_text(call)
    of_ge = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "ge"
    return name if of_ge and name[:1].isupper() else None


def _first_text(call: ast.Call) -> str | None:
    arguments = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "op_type")]
    return next((str(value.value) for value in arguments if isinstance(value, ast.Constant)), None)

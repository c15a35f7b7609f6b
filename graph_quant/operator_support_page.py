"""The page docs/operator-support.md, written from what is registered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from textwrap import wrap

import torch

from .modes import try_modes
from .operator_support import OperatorSupport, supported_operators
from .start import stand_ins

_HEAD = """# Operator support

Written by `graph-quant operators --page` from what is registered. *Eager* is a call on `npu` tensors,
*graph* a compiled one that the host runs, *rules* whether wrong calls are refused when they are traced.
"""
_EXTENSIONS = """\
Where an extension is not installed, a [stand-in](extensions.md) defines its operators. They run eagerly, captured and
in `npugraph_ex`; those without a reference are refused by name.
"""
_REST = "operators that run in graphs, with upstream's own inference"


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from _HEAD.splitlines()
    yield from _operators()
    yield from _modes()
    yield from _collectives()


def _operators() -> Iterator[str]:
    listed = supported_operators()
    operators = [operator for operator in listed if stand_ins.origin(operator.name) is None]
    families: dict[str, list[OperatorSupport]] = defaultdict(list)
    for operator in operators:
        if operator.eager or operator.graph:
            families[operator.family or _REST].append(operator)
    neither = [operator for operator in operators if not operator.eager and not operator.graph]
    eager, graph = sum(operator.eager for operator in operators), sum(operator.graph for operator in operators)
    yield ""
    yield (
        f"## Operators: {eager} eagerly, {graph} in graphs, {len(neither)} of those that upstream lowers in neither way"
    )
    for family in sorted(families, key=lambda name: (name == _REST, name)):
        yield ""
        yield f"### {family}"
        yield ""
        yield "| operator | eager | graph | rules | lowered by |"
        yield "|---|---|---|---|---|"
        for operator in families[family]:
            marks = " | ".join("yes" if mark else "" for mark in (operator.eager, operator.graph, operator.rules))
            yield f"| {_name(operator)} | {marks} | {operator.lowered_by} |"
    yield ""
    yield "### in neither way"
    yield ""
    yield from wrap("A call is refused by name: " + ", ".join(map(_name, neither)) + ".", 120)
    yield from _extensions([operator for operator in listed if operator not in operators])


def _extensions(operators: Iterable[OperatorSupport]) -> Iterator[str]:
    by_extension: dict[str, list[OperatorSupport]] = defaultdict(list)
    for operator in operators:
        by_extension[operator.defined_by].append(operator)
    yield ""
    yield "## Operators of compiled extensions"
    yield ""
    yield from _EXTENSIONS.splitlines()
    for extension in sorted(by_extension):
        eager = [operator for operator in by_extension[extension] if operator.eager]
        rest = [operator for operator in by_extension[extension] if not operator.eager]
        yield ""
        yield f"### {extension}: {len(eager)} of {len(eager) + len(rest)}"
        yield ""
        yield from wrap("Run: " + ", ".join(map(_name, eager)) + ".", 120, break_on_hyphens=False)
        if rest:
            yield ""
            yield from wrap("Refused: " + ", ".join(map(_name, rest)) + ".", 120, break_on_hyphens=False)


def _modes() -> Iterator[str]:
    yield ""
    yield "## Graph modes"
    yield ""
    yield "| mode | on this host |"
    yield "|---|---|"
    for mode, outcome in try_modes().items():
        yield f"| `{mode}` | {outcome} |"


def _collectives() -> Iterator[str]:
    names = sorted(name for name in torch._C._dispatch_get_all_op_names() if name.startswith("c10d::"))
    supported = [name for name in names if torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1")]
    yield ""
    yield "## Collectives"
    yield ""
    yield from wrap(f"Of torch.distributed, with the backend `hccl` over Gloo: {_listed(supported)}.", 120)
    if rest := [name for name in names if name not in supported]:
        yield from wrap(f"Not on npu tensors: {_listed(rest)}.", 120)


def _name(operator: OperatorSupport) -> str:
    return f"`{operator.name.removeprefix('npu::')}`"


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name.removeprefix('c10d::').strip('_')}`" for name in names)

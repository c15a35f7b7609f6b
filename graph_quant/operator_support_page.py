"""The page docs/operator-support.md, written from what is registered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from textwrap import wrap

import torch

from .modes import try_modes
from .operator_support import OperatorSupport, supported_operators

_HEAD = """# Operator support

Written by `graph-quant operators --page` from what is registered. *Eager* is a call on `npu` tensors,
*graph* a compiled one that the host runs, *rules* whether wrong calls are refused when they are traced.
"""
_REST = "operators that run in graphs, with upstream's own inference"


def page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from _HEAD.splitlines()
    yield from _operators()
    yield from _modes()
    yield from _collectives()


def _operators() -> Iterator[str]:
    operators = supported_operators()
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

"""Lint rules about chips: whether the nodes of a graph run on one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...chip import ASCEND_950, Chip
from .lint import RULES, Finding, Severity, lint_rule

if TYPE_CHECKING:
    from ...ge import Node
    from ..dump import Dump


@lint_rule(
    "lacking-chip",
    Severity.ERROR,
    why="the chip has no kernel for the node, or its operators do not take the dtype",
    fix="use another operator or dtype on this chip, or name the chips that the graph is for with --chip",
    all_formats=True,
)
def find_nothing(_dump: Dump) -> Iterator[tuple[str, str]]:
    """Nothing without a chip: ``lint_for`` finds these."""
    return iter(())


@lint_rule(
    "undescribed-chip",
    Severity.WARNING,
    why="this package does not describe the node's rules and rounding for the chip, so nothing is known of its results",
    fix="`graph-quant operators --chip NAME` lists what is described",
    all_formats=True,
)
def find_nothing_undescribed(_dump: Dump) -> Iterator[tuple[str, str]]:
    """Nothing without a chip: ``lint_for`` finds these."""
    return iter(())


def lint_for(dump: Dump, chips: Sequence[Chip]) -> list[Finding]:
    """Check the nodes of a dump against chips.

    Args:
        dump: The dump.
        chips: The chips, from ``graph_quant.chip``.

    Returns:
        The findings, chip by chip in execution order; each message starts with ``on`` and the chip's name.

    Examples:
        >>> lint_for(dump, [find_chip("A3"), find_chip("950")])
    """
    findings = []
    for chip in chips:
        for graph in dump.graphs():
            name = "" if graph is dump else graph.name
            for node in graph.order:
                for rule, message in _check_node(graph, node, chip):
                    findings.append(Finding(RULES[rule], node.name, f"on {chip.name}: {message}", name))
    return findings


def _check_node(dump: Dump, node: Node, chip: Chip) -> Iterator[tuple[str, str]]:
    from ...host.kernels import KERNELS

    kernel = KERNELS.get(node.type)
    if kernel is not None and chip not in kernel.chips:
        if kernel.chips == (ASCEND_950,):
            yield "lacking-chip", f"{node.type} is an operator of {ASCEND_950.name}"
        else:
            yield "undescribed-chip", f"{node.type} is not described"
    dtypes = {tensor.dtype for tensor in (*dump.inference.input_types(node), *dump.inference.types[node.name])}
    for dtype in sorted(dtypes & chip.lacks):
        yield "lacking-chip", f"{node.type} has {dtype}, which the chip lacks"

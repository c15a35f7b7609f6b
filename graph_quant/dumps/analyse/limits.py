"""Limits that a build sets for its graphs: the number of nodes, the quantised share, and forbidden node types."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ...ge import list_known_types
from ..errors import DumpError
from .cost import Costs
from .lint import Finding, Rule, Severity

if TYPE_CHECKING:
    from ..dump import Dump


def _rule(name: str, why: str, fix: str) -> Rule:
    return Rule(name, Severity.ERROR, why, fix, lambda _: iter(()), all_formats=True)


NODE_COUNT = _rule(
    "node-count",
    "every node is a launch or a step of compilation; the build limits how many a graph may have",
    "graph-quant diff OLD NEW shows which nodes came in; raise the limit, or write the baseline again, if it is meant",
)
QUANTISED_SHARE = _rule(
    "quantised-share",
    "the build demands that this share of the computing nodes reads or writes quantised tensors",
    "graph-quant inspect shows which modules compute in floating point; quantise them, or lower the limit",
)
FORBIDDEN_TYPE = _rule(
    "forbidden-type",
    "the build forbids nodes of this type",
    "change the model or the lowering so that the node is not needed, or remove the type from --forbid",
)
LIMIT_RULES = {rule.id: rule for rule in (NODE_COUNT, QUANTISED_SHARE, FORBIDDEN_TYPE)}


@dataclass(frozen=True)
class GraphSize:
    """The size of a graph: its nodes, and how many of the computing ones are quantised; with called graphs."""

    nodes: int
    quantised: int
    computing: int

    @property
    def share(self) -> float | None:
        """The quantised share of the computing nodes; None if nothing computes."""
        return self.quantised / self.computing if self.computing else None

    def __str__(self) -> str:
        return f"{self.nodes} nodes, {self.quantised} of {self.computing} computing nodes quantised"


def measure_size(dump: Dump) -> GraphSize:
    """Count the nodes of a dump.

    Args:
        dump: The dump.

    Returns:
        All nodes, computing nodes, and those with quantised tensors.

    Examples:
        >>> measure_size(dump).share
        0.67
    """
    return GraphSize(sum(len(graph.nodes) for graph in dump.graphs()), *Costs(dump).quantised())


@dataclass(frozen=True)
class GateLimits:
    """Limits that `check_limits` holds a dump to.

    Attributes:
        max_nodes: The most nodes.
        min_quantised: The least share of computing nodes with quantised tensors, between 0 and 1.
        forbidden: Node types, or patterns such as ``Trans*``.

    Raises:
        DumpError: If a forbidden type is unknown and close to the name of a known one.
    """

    max_nodes: int | None = None
    min_quantised: float | None = None
    forbidden: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = list_known_types() if self.forbidden else []
        for name in self.forbidden:
            close = difflib.get_close_matches(name, known, 1, 0.85)
            if name not in known and close and not any(sign in name for sign in "*?["):
                raise DumpError(f"GE has no operator of type {name}; did you mean {close[0]}?")


def check_limits(dump: Dump, limits: GateLimits) -> list[Finding]:
    """Check a dump against limits.

    Args:
        dump: The dump.
        limits: The limits.

    Returns:
        A finding for each limit that is exceeded, and for each forbidden node.

    Examples:
        >>> check_limits(dump, GateLimits(max_nodes=800, min_quantised=0.95, forbidden=("TransData",)))
    """
    findings = list(_find_forbidden(dump, limits.forbidden))
    if limits.max_nodes is None and limits.min_quantised is None:
        return findings
    size = measure_size(dump)
    if limits.max_nodes is not None and size.nodes > limits.max_nodes:
        findings.append(Finding(NODE_COUNT, "", f"{size.nodes} nodes, at most {limits.max_nodes} are allowed"))
    if limits.min_quantised is not None and size.share is not None and size.share < limits.min_quantised:
        message = (
            f"{size.quantised} of {size.computing} computing nodes are quantised ({100 * size.share:.3g} %), "
            f"at least {100 * limits.min_quantised:.3g} % must be"
        )
        findings.append(Finding(QUANTISED_SHARE, "", message))
    return findings


def compare_sizes(before: GraphSize, after: GraphSize) -> list[Finding]:
    """Findings where a graph grew, or is quantised to a lesser share, against a baseline."""
    findings = []
    if after.nodes > before.nodes:
        findings.append(Finding(NODE_COUNT, "", f"{after.nodes} nodes, the baseline has {before.nodes}"))
    if before.share is not None and after.share is not None and after.share < before.share:
        shares = f"{100 * after.share:.3g} % of the computing nodes are quantised, in the baseline "
        findings.append(Finding(QUANTISED_SHARE, "", f"{shares}{100 * before.share:.3g} %"))
    return findings


def _find_forbidden(dump: Dump, forbidden: Sequence[str]) -> Iterator[Finding]:
    for graph in dump.graphs():
        for node in graph.order:
            if any(fnmatchcase(node.type, pattern) for pattern in forbidden):
                name = "" if graph is dump else graph.name
                yield Finding(FORBIDDEN_TYPE, node.name, f"is a {node.type}", name)

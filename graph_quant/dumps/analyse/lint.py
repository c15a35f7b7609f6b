"""Checks a graph against rules that a build can fail on."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import DumpError, renamed

if TYPE_CHECKING:
    from ..dump import Dump

Check = Callable[["Dump"], Iterator[tuple[str, str]]]


class Severity(enum.IntEnum):
    """The severity of a finding: NOTE, WARNING or ERROR.

    Examples:
        >>> [finding for finding in lint(dump) if finding.rule.severity >= Severity.WARNING]
    """

    NOTE = 1  # nodes that TorchAir adds and GE removes: no action needed
    WARNING = 2  # works, but the caller can improve it
    ERROR = 3  # GE or the device rejects it, or may compute a different result

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Rule:
    """A lint rule; ``check`` yields a node name and a message, ``why`` and ``fix`` apply to every finding.

    Without ``all_formats`` the rule is about what a converter wrote, and skips GE's own dumps and FX graphs.
    """

    id: str
    severity: Severity
    why: str
    fix: str
    check: Check
    all_formats: bool = False
    way_out = renamed("fix")


@dataclass(frozen=True)
class Finding:
    """A violation of a lint rule at a node.

    Attributes:
        rule: The rule, with ``id``, ``severity``, ``why`` and ``fix``.
        node: The name of the node.
        message: What is wrong with the node.
        graph: The name of the graph, empty for the root graph of the dump.
    """

    rule: Rule
    node: str
    message: str
    graph: str = ""
    place = renamed("location")

    @property
    def location(self) -> str:
        """The node, prefixed with its graph unless that is the root."""
        return f"{self.graph}/{self.node}" if self.graph else self.node


RULES: dict[str, Rule] = {}


def lint_rule(
    name: str, severity: Severity, *, why: str, fix: str, all_formats: bool = False
) -> Callable[[Check], Check]:
    """Register a check function as the rule ``name``."""

    def register(check: Check) -> Check:
        RULES[name] = Rule(name, severity, why, fix, check, all_formats)
        return check

    return register


def lint_rules() -> dict[str, Rule]:
    """Return all lint rules.

    Returns:
        The rules by id.

    Examples:
        >>> lint_rules()["int4-width"].why
    """
    from . import lint_chips, lint_dtypes, lint_passes, lint_structure  # noqa: F401  (they register themselves)

    return RULES


def check_rule_names(ignore: Sequence[str]) -> None:
    """Raise `DumpError` for an entry that names an unknown rule.

    Args:
        ignore: As in `lint`.

    Raises:
        DumpError: If there is no such rule.

    Examples:
        >>> check_rule_names(["int4-width:GroupQuant"])
    """
    known = lint_rules()
    for entry in ignore:
        if entry.partition(":")[0] not in known:
            raise DumpError(
                f"there is no lint rule {entry.partition(':')[0]}; the rules are {', '.join(sorted(known))}"
            )


def lint(dump: Dump, ignore: Sequence[str] = ()) -> list[Finding]:
    """Check a dump against all rules.

    Args:
        dump: The dump.
        ignore: Rules to skip, as ``id``, or as ``id:node`` for a single node.

    Returns:
        The findings in execution order.

    Raises:
        DumpError: If ``ignore`` names an unknown rule.

    Examples:
        >>> for finding in lint(dump, ignore=["static-shape"]):
        ...     print(finding.location, finding.message)
    """
    known = lint_rules()
    check_rule_names(ignore)
    findings: list[Finding] = []
    for graph in dump.graphs():
        name = "" if graph is dump else graph.name
        in_graph = [
            Finding(rule, node, message, name)
            for rule in known.values()
            if rule.id not in ignore and (rule.all_formats or not graph.trusts_descs)
            for node, message in rule.check(graph)
            if f"{rule.id}:{node}" not in ignore
        ]
        findings += sorted(in_graph, key=lambda finding: (graph.position.get(finding.node, -1), finding.rule.id))
    return findings

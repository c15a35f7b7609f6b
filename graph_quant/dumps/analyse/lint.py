"""Checks a graph against rules that a build can fail on."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import DumpError

if TYPE_CHECKING:
    from ..dump import Dump

Check = Callable[["Dump"], Iterator[tuple[str, str]]]


class Severity(enum.IntEnum):
    """How much a finding matters."""

    NOTE = 1  # what TorchAir adds and GE removes: nobody needs to act
    WARNING = 2  # it works and could be better; the caller can act
    ERROR = 3  # GE or the device refuses it, or may compute something else

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Rule:
    """``check`` yields a node and what is wrong with it; ``why`` and ``way_out`` hold for every finding.

    One that does not hold ``anywhere`` asks what a converter left, and says nothing of GE's own dumps or of FX graphs.
    """

    id: str
    severity: Severity
    why: str
    way_out: str
    check: Check
    anywhere: bool = False


@dataclass(frozen=True)
class Finding:
    """A rule that fired at a node."""

    rule: Rule
    node: str
    message: str
    graph: str = ""  # where it is not the first of a dump

    @property
    def place(self) -> str:
        """The node, with its graph where that is called by another."""
        return f"{self.graph}/{self.node}" if self.graph else self.node


RULES: dict[str, Rule] = {}


def rule(name: str, severity: Severity, *, why: str, way_out: str, anywhere: bool = False) -> Callable[[Check], Check]:
    """Register a check as the rule ``name``."""

    def register(check: Check) -> Check:
        RULES[name] = Rule(name, severity, why, way_out, check, anywhere)
        return check

    return register


def rules() -> dict[str, Rule]:
    """Every rule by its id."""
    from . import lint_dtypes, lint_passes, lint_structure  # noqa: F401  (they register themselves)

    return RULES


def lint(dump: Dump, ignore: Sequence[str] = ()) -> list[Finding]:
    """The findings in the order of the graph. ``ignore`` holds rule ids, or ``id:node`` for a single place."""
    known = rules()
    for entry in ignore:
        if entry.partition(":")[0] not in known:
            raise DumpError(
                f"there is no lint rule {entry.partition(':')[0]}; the rules are {', '.join(sorted(known))}"
            )
    found: list[Finding] = []
    for graph in dump.graphs():
        name = "" if graph is dump else graph.name
        here = [
            Finding(each, node, message, name)
            for each in known.values()
            if each.id not in ignore and (each.anywhere or not graph.trusts_descs)
            for node, message in each.check(graph)
            if f"{each.id}:{node}" not in ignore
        ]
        found += sorted(here, key=lambda finding: (graph.position.get(finding.node, -1), finding.rule.id))
    return found

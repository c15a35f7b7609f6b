"""What a dry run finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..dumps import Dump


@dataclass(frozen=True)
class Finding:
    """Something found, and the Python line that it comes from, as far as one is known."""

    what: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.what}  # {self.where}" if self.where else self.what


@dataclass
class DryGraph:
    """One graph that was lowered and not run.

    ``dump`` is its GE graph, None where the operators are captured as they are. ``sizes`` are those of the call that it
    was lowered for.
    """

    name: str
    dump: Dump | None
    operators: Counter[str]
    sizes: dict[str, int] = field(default_factory=dict)
    unlowered: list[Finding] = field(default_factory=list)
    no_kernel: list[Finding] = field(default_factory=list)
    floats: list[Finding] = field(default_factory=list)
    islands: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether an NPU could take it as it is."""
        return not self.unlowered


@dataclass
class DryRun:
    """All graphs of a model or a script, and what kept it from being one."""

    title: str
    graphs: list[DryGraph] = field(default_factory=list)
    breaks: list[Finding] = field(default_factory=list)
    refused: list[Finding] = field(default_factory=list)
    stopped: str = ""

    @property
    def ok(self) -> bool:
        """Whether everything lowers, without a break, and nothing is refused."""
        whole = not (self.breaks or self.refused or self.stopped)
        return bool(self.graphs) and whole and all(graph.ok for graph in self.graphs)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was compiled for the NPU, nor was to be."""
        return not (self.graphs or self.breaks or self.refused or self.stopped)

    def lines(self, chip: str | None = None) -> Iterator[str]:
        """The page in text; with ``chip``, what the graphs would cost there."""
        from .report import report_lines

        return report_lines(self, chip)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def as_json(self, chip: str | None = None) -> dict[str, Any]:
        """The same for programs."""
        from .report import report_as_json

        return report_as_json(self, chip)

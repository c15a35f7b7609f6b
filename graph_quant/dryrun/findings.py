"""The results of a dry run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..dumps import Dump
    from ..fusions.apply import FusionReport


@dataclass(frozen=True)
class DryRunFinding:
    """A finding and the Python line that it comes from.

    Attributes:
        what: The finding, in words.
        where: ``file:line``, or "" where it is not known.
    """

    what: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.what}  # {self.where}" if self.where else self.what


@dataclass
class DryGraph:
    """One graph that was lowered but not executed.

    Attributes:
        name: The name of the graph.
        dump: The GE graph; None for a captured graph, whose operators are not lowered.
        operators: The ATen and npu operators with their counts.
        sizes: The sizes of symbols in the call that was traced.
        unlowered: Operators without a converter, or that it refuses.
        no_kernel: Operators that the host cannot compute.
        floats: Matrix products in floating point.
        islands: Parts in floating point between quantised operators.
        fusions: What was fused and what was not; None where no fusions are selected.
    """

    name: str
    dump: Dump | None
    operators: Counter[str]
    sizes: dict[str, int] = field(default_factory=dict)
    unlowered: list[DryRunFinding] = field(default_factory=list)
    no_kernel: list[DryRunFinding] = field(default_factory=list)
    floats: list[DryRunFinding] = field(default_factory=list)
    islands: list[DryRunFinding] = field(default_factory=list)
    fusions: FusionReport | None = None

    @property
    def ok(self) -> bool:
        """Whether every operator lowers."""
        return not self.unlowered


@dataclass
class DryRun:
    """The result of `graph_quant.plan`.

    Attributes:
        title: The name of the model or script.
        graphs: The graphs that were lowered.
        breaks: Graph breaks.
        refused: Calls that the rules of an operator refused.
        stopped: The error that stopped the model or script, or an empty string.
    """

    title: str
    graphs: list[DryGraph] = field(default_factory=list)
    breaks: list[DryRunFinding] = field(default_factory=list)
    refused: list[DryRunFinding] = field(default_factory=list)
    stopped: str = ""

    @property
    def ok(self) -> bool:
        """Whether everything lowers without a graph break or refusal."""
        whole = not (self.breaks or self.refused or self.stopped)
        return bool(self.graphs) and whole and all(graph.ok for graph in self.graphs)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was compiled for the NPU."""
        return not (self.graphs or self.breaks or self.refused or self.stopped)

    def lines(self, chip: str | None = None) -> Iterator[str]:
        """The report as lines of text; with ``chip``, including the least time on that chip."""
        from .report import report_lines

        return report_lines(self, chip)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def as_json(self, chip: str | None = None) -> dict[str, Any]:
        """The report as a dictionary for JSON."""
        from .report import report_as_json

        return report_as_json(self, chip)

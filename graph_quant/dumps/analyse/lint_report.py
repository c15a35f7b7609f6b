"""What ``lint`` found in one file: its findings, those that are new, or why the file could not be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...ge import Source
from .baseline import Baseline
from .limits import GateLimits, GraphSize, check_limits, measure_size
from .lint import Finding, Rule, Severity, lint

if TYPE_CHECKING:
    from ...chip import Chip
    from ..dump import Dump

UNREADABLE = Rule(
    "unreadable",
    Severity.ERROR,
    "a file that cannot be read is not checked",
    "dump the graph again, or leave the file out",
    lambda _: iter(()),
    all_formats=True,
)


@dataclass
class CheckedDump:
    """The result of `check_dump`.

    Attributes:
        path: The file.
        name: Its name in a baseline.
        findings: All findings; of a file that cannot be read, one that says why.
        new: The findings that are not in the baseline; all without one.
        size: The size of the graph, None where it was not needed.
        sources: The Python line of each node with a finding, by graph and node.
        is_readable: Whether the file could be read.
    """

    path: Path
    name: str
    findings: list[Finding] = field(default_factory=list)
    new: list[Finding] = field(default_factory=list)
    size: GraphSize | None = None
    sources: dict[tuple[str, str], Source] = field(default_factory=dict)
    is_readable: bool = True

    @classmethod
    def unreadable(cls, path: Path, name: str, reason: str) -> CheckedDump:
        """The result for a file that cannot be read."""
        findings = [Finding(UNREADABLE, "", reason.removeprefix(f"{path}: "))]
        return cls(path, name, findings, list(findings), is_readable=False)

    def source(self, finding: Finding) -> Source:
        """The source of the node of a finding; empty if unknown."""
        return self.sources.get((finding.graph, finding.node), Source())


def check_dump(
    dump: Dump,
    path: str | Path = "",
    *,
    name: str = "",
    ignore: Sequence[str] = (),
    limits: GateLimits | None = None,
    baseline: Baseline | None = None,
    chips: Sequence[Chip] = (),
) -> CheckedDump:
    """Check a dump against rules, limits and a baseline.

    Args:
        dump: The dump.
        path: Its file.
        name: Its name in the baseline; default: the name of the file.
        ignore: As in `lint`.
        limits: Limits of the build. What exceeds them is always new.
        baseline: Findings that are known.
        chips: Chips to check against, as in `lint_for`.

    Returns:
        The findings.

    Raises:
        DumpError: If ``ignore`` names an unknown rule.

    Examples:
        >>> check_dump(load("graph.txt"), limits=GateLimits(max_nodes=800)).new
    """
    path = Path(path)
    name = name or path.name
    findings = lint(dump, ignore)
    if chips:
        from .lint_chips import lint_for

        for finding in lint_for(dump, chips):
            if finding.rule.id not in ignore and f"{finding.rule.id}:{finding.node}" not in ignore:
                findings.append(finding)
    size = measure_size(dump) if baseline is not None else None
    new = list(findings) if baseline is None or size is None else baseline.find_new(name, dump, size, findings)
    exceeded = check_limits(dump, limits) if limits else []
    grown = [finding for finding in new if finding not in findings]
    every = [*findings, *grown, *exceeded]
    graphs = {"" if graph is dump else graph.name: graph for graph in dump.graphs()}
    sources = {
        (finding.graph, finding.node): graphs[finding.graph].nodes[finding.node].source
        for finding in every
        if finding.node in graphs[finding.graph].nodes
    }
    return CheckedDump(path, name, every, [*new, *exceeded], size, sources)

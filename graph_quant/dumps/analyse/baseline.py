"""A baseline of lint findings: what is in it does not fail a build again."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DumpError
from .limits import GraphSize, compare_sizes
from .lint import Finding, Rule, Severity

if TYPE_CHECKING:
    from ..dump import Dump

_VERSION = 1
_RUN = re.compile(r"(_rank_\d+)_pid_\d+_ts_\d+")  # TorchAir's file names; the process differs from run to run
_NUMBERED = re.compile(r"(?<=[A-Za-z])_\d+\b|\bs\d+\b")  # numbered node names, and symbols

Fingerprint = tuple[str, ...]

NOT_IN_BASELINE = Rule(
    "not-in-baseline",
    Severity.WARNING,
    "a graph of a new name is compared with nothing",
    "write the baseline again if the graph is new; keep the name of the file if it is not",
    lambda _: iter(()),
    all_formats=True,
)


def fingerprint(dump: Dump, finding: Finding) -> Fingerprint:
    """What identifies a finding when nodes are renumbered: rule, graph, node type, module and message."""
    graph = next((graph for graph in dump.graphs() if graph.name == finding.graph), dump) if finding.graph else dump
    node = graph.nodes.get(finding.node)
    described = (node.type, node.source.module) if node else ("", "")
    return finding.rule.id, _NUMBERED.sub("", finding.graph), *described, _NUMBERED.sub("", finding.message)


def name_dumps(paths: Sequence[Path], roots: Iterable[str | Path]) -> dict[Path, str]:
    """Names of dumps that stay the same from run to run: relative to the folders, without process and time.

    Args:
        paths: The dumps.
        roots: The files and folders in which they were found.

    Returns:
        The name of each.

    Examples:
        >>> name_dumps(find_dumps(["dumps/"]), ["dumps/"])
    """
    folders = [Path(root) for root in roots if Path(root).is_dir()]
    names: dict[Path, str] = {}
    counts: Counter[str] = Counter()
    for path in paths:
        inside = next((path.relative_to(folder) for folder in folders if path.is_relative_to(folder)), Path(path.name))
        name = _RUN.sub(r"\1", inside.as_posix())
        counts[name] += 1
        names[path] = name if counts[name] == 1 else f"{name}#{counts[name]}"
    return names


@dataclass
class Baseline:
    """The sizes and findings of earlier dumps, by name.

    Attributes:
        sizes: The size of each dump.
        findings: How often each dump has each finding.
    """

    sizes: dict[str, GraphSize] = field(default_factory=dict)
    findings: dict[str, Counter[Fingerprint]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path) -> Baseline:
        """Read a baseline.

        Args:
            path: A file that `write` wrote.

        Returns:
            The baseline.

        Raises:
            DumpError: If the file cannot be read or is not a baseline.

        Examples:
            >>> baseline = Baseline.read("lint-baseline.json")
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if content["version"] != _VERSION:
                raise DumpError(f"{path}: a baseline of version {content['version']}, not {_VERSION}; write it again")
            baseline = cls()
            for name, entry in content["dumps"].items():
                baseline.sizes[name] = GraphSize(
                    **{key: int(entry[key]) for key in ("nodes", "quantised", "computing")}
                )
                baseline.findings[name] = Counter(
                    {tuple(map(str, item["of"])): int(item["count"]) for item in entry["findings"]}
                )
        except OSError as error:
            raise DumpError(f"{path}: {error.strerror or type(error).__name__}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DumpError(f"{path}: not a baseline; graph-quant lint DUMP --write-baseline FILE writes one") from None
        return baseline

    def add(self, name: str, dump: Dump, size: GraphSize, findings: Iterable[Finding]) -> None:
        """Add a dump.

        Args:
            name: Its name, as `name_dumps` returns it.
            dump: The dump.
            size: Its size.
            findings: Its findings.

        Examples:
            >>> baseline.add("graph.txt", dump, measure_size(dump), dump.lint())
        """
        self.sizes[name] = size
        self.findings[name] = Counter(fingerprint(dump, finding) for finding in findings)

    def find_new(self, name: str, dump: Dump, size: GraphSize, findings: Iterable[Finding]) -> list[Finding]:
        """The findings that are not in the baseline.

        Args:
            name: The dump's name.
            dump: The dump.
            size: Its size.
            findings: Its findings.

        Returns:
            New findings in their order, and one where the graph grew or is quantised to a lesser share.

        Examples:
            >>> baseline.find_new("graph.txt", dump, measure_size(dump), dump.lint())
        """
        left = Counter(self.findings.get(name, {}))
        new = []
        for finding in findings:
            key = fingerprint(dump, finding)
            if left[key] > 0:
                left[key] -= 1
            else:
                new.append(finding)
        if name in self.sizes:
            return new + compare_sizes(self.sizes[name], size)
        return [*new, Finding(NOT_IN_BASELINE, "", f"the baseline has no {name}, so its size is not compared")]

    def write(self) -> str:
        """The baseline as JSON, sorted, so that it can be committed.

        Returns:
            The text of the file.

        Examples:
            >>> Path("lint-baseline.json").write_text(baseline.write())
        """
        dumps: Mapping[str, Any] = {
            name: {
                "nodes": size.nodes,
                "quantised": size.quantised,
                "computing": size.computing,
                "findings": [{"of": list(key), "count": count} for key, count in sorted(self.findings[name].items())],
            }
            for name, size in sorted(self.sizes.items())
        }
        return json.dumps({"version": _VERSION, "dumps": dumps}, indent=1) + "\n"

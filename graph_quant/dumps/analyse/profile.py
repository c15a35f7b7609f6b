"""Measured times: rows of the profiler's kernel_details.csv or op_summary.csv, matched to nodes."""

from __future__ import annotations

import csv
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...ge import CONST_TYPES, END_TYPES, OUTSIDE_TYPES, Node, printable
from ..errors import DumpError
from ..graph.placement import read_placement
from ..read.device_data import to_file_name

if TYPE_CHECKING:
    from ..dump import Dump

_NAMES = ("Name", "Op Name")
_TYPES = ("Type", "OP Type", "Op Type")
_TIMES = ("Duration(us)", "Task Duration(us)")
_CORES = ("Accelerator Core", "Task Type")
_SHOWN = 5


@dataclass(frozen=True)
class Row:
    """One run of a kernel."""

    name: str
    type: str
    microseconds: float
    core: str = ""


@dataclass
class Measured:
    """The total time of one node, its number of runs, and how its rows were matched."""

    microseconds: float = 0.0
    runs: int = 0
    found_by: str = ""

    @property
    def per_run(self) -> float:
        """Mean microseconds of a run."""
        return self.microseconds / self.runs


@dataclass
class Profile:
    """Times by node, and rows without a node."""

    nodes: dict[str, Measured] = field(default_factory=dict)
    unmatched: list[Row] = field(default_factory=list)
    total: float = 0.0

    def share(self, node: str) -> float:
        """The fraction of the total time spent in a node."""
        return self.nodes[node].microseconds / self.total if self.total and node in self.nodes else 0.0

    def lines(self) -> Iterator[str]:
        """A summary as lines of text."""
        matched = sum(measured.microseconds for measured in self.nodes.values())
        share = f" ({100 * matched / self.total:.0f} %)" if self.total else ""
        ways = Counter(measured.found_by for measured in self.nodes.values())
        how = ": " + ", ".join(f"{count} by {way}" for way, count in ways.items()) if ways else ""
        yield f"measured: {self.total:.1f} us, {matched:.1f} us{share} at {len(self.nodes)} nodes{how}"
        times: Counter[str] = Counter()
        for row in self.unmatched:
            times[f"{row.name} ({row.type})"] += row.microseconds  # type: ignore[assignment]
        for name, spent in times.most_common(_SHOWN):
            yield f"  at no node: {printable(name, 120)} {spent:.1f} us"
        if len(times) > _SHOWN:
            yield f"  at no node: {len(times) - _SHOWN} more kernels"


def read_profile(path: Path) -> list[Row]:
    """Read a profile.

    Args:
        path: A kernel_details.csv or op_summary.csv of the profiler.

    Returns:
        One row for each kernel, in execution order.

    Raises:
        DumpError: If the file cannot be read or has other columns.

    Examples:
        >>> profile = join_profile(dump, read_profile(Path("kernel_details.csv")))
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file)
            heads = list(table.fieldnames or ())
            name, kind, time = (_find_column(heads, names) for names in (_NAMES, _TYPES, _TIMES))
            core = next((head for head in _CORES if head in heads), None)
            if name is None or kind is None or time is None:
                raise DumpError(f"{path}: this is not a kernel_details.csv or op_summary.csv of the profiler")
            return [
                Row(row[name] or "", row[kind] or "", _parse_time(row[time]), (row[core] or "") if core else "")
                for row in table
                if row[name]
            ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DumpError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def _find_column(heads: Sequence[str], names: Sequence[str]) -> str | None:
    return next((name for name in names if name in heads), None)


def _parse_time(text: str | None) -> float:
    try:
        value = float((text or "0").strip())
    except ValueError:
        return 0.0
    return value if math.isfinite(value) and value >= 0 else 0.0


def join_profile(dump: Dump, rows: Sequence[Row]) -> Profile:
    """Match the rows of a profile to nodes: by name, by the names of fused nodes, then by type and order.

    Args:
        dump: The dump.
        rows: The rows that `read_profile` returned.

    Returns:
        The profile, with ``nodes``, ``unmatched`` and ``total``.

    Examples:
        >>> join_profile(dump, rows).share("MatMulV2")
    """
    profile = Profile(total=sum(row.microseconds for row in rows))
    nodes = [(graph, node) for graph in dump.graphs() for node in graph.order if _is_kernel(node)]
    names: dict[str, str] = {}
    origins: dict[str, str] = {}
    for graph, node in nodes:
        names.setdefault(to_file_name(node.name), node.name)
        for origin in read_placement(graph, node).origins:
            origins.setdefault(to_file_name(origin), node.name)
    left = []
    for row in rows:
        name = to_file_name(row.name)
        node_name = names.get(name) or next((names[part] for part in _node_names(name) if part in names), None)
        if node_name is not None:
            _add_run(profile, node_name, row, "name")
        elif name in origins:
            _add_run(profile, origins[name], row, "what was fused")
        else:
            left.append(row)
    profile.unmatched = _match_by_order(profile, [node for _, node in nodes], left)
    return profile


def _is_kernel(node: Node) -> bool:
    return node.type not in CONST_TYPES | OUTSIDE_TYPES | END_TYPES


def _node_names(name: str) -> Iterator[str]:
    """Candidate node names for a kernel name: without the suffix of a slice or kernel."""
    head, _, tail = name.rpartition("_lxslice")
    if head and tail.isdigit():
        yield head
    yield name.removesuffix("_kernel0")


def _match_by_order(profile: Profile, nodes: Sequence[Node], rows: Sequence[Row]) -> list[Row]:
    """Match remaining rows to nodes of the same type in order, if their number is a multiple; return the rest."""
    free: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        if node.name not in profile.nodes:
            free[node.type].append(node.name)
    waiting: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        waiting[row.type].append(row)
    unmatched = []
    for kind, group in waiting.items():
        names = free.get(kind, [])
        if names and len(group) % len(names) == 0:
            for index, row in enumerate(group):
                _add_run(profile, names[index % len(names)], row, "order")
        else:
            unmatched += group
    return unmatched


def _add_run(profile: Profile, node: str, row: Row, found_by: str) -> None:
    measured = profile.nodes.setdefault(node, Measured(found_by=found_by))
    measured.microseconds += row.microseconds
    measured.runs += 1

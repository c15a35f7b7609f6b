"""How many of a device's streams the captured graphs of a model hold."""

from __future__ import annotations

from typing import NamedTuple

from .findings import DryGraph, DryRun

# The stream ids that a device has for captured graphs; each graph holds its own until it is destroyed.
MOST_STREAMS = 1984
_COLLECTIVES = ("_c10d_functional", "c10d", "npu_all_gather", "npu_mm_", "hcom")


class StreamCount(NamedTuple):
    """How many streams captured graphs need, and how many a device has.

    Attributes:
        needed: The number of streams that the captured graphs hold.
        most: The number that a device has.
        line: Both in words.
    """

    needed: int
    most: int
    line: str


def count_streams(run: DryRun, sizes: int) -> StreamCount:
    """Count the streams of every graph captured once for each of ``sizes``.

    A graph is captured on one stream, and on one more for each group of ranks that it communicates with.

    Args:
        run: The dry run; its graphs are the pieces that are captured.
        sizes: How many batch sizes are captured.

    Returns:
        The number of streams, that of a device, and the line of the report.
    """
    streams = [1 + len(_find_groups(graph)) for graph in run.graphs]
    needed = sizes * sum(streams)
    pieces = f"{len(streams)} graph{'s' * (len(streams) != 1)}"
    groups = sum(streams) - len(streams)
    line = f"captured at {sizes} sizes: {sizes} x ({pieces} + {groups} for communication) = {needed:,} streams"
    if needed <= MOST_STREAMS:
        return StreamCount(needed, MOST_STREAMS, f"{line} of {MOST_STREAMS:,}")
    most = MOST_STREAMS // max(sum(streams), 1)
    remedy = f"but a device has {MOST_STREAMS:,}: capture at most {most} sizes, or fewer pieces"
    return StreamCount(needed, MOST_STREAMS, f"{line}, {remedy}")


def _find_groups(graph: DryGraph) -> set[str]:
    """Return the groups of ranks that a graph communicates with; one for a graph that was not lowered."""
    if graph.dump is None:
        names = (name.replace("::", ".") for name in graph.operators)
        return {"group"} if any(part in name for name in names for part in _COLLECTIVES) else set()
    attributes = (node.proto.attr for node in graph.dump.order)
    return {attrs["group"].s.decode() for attrs in attributes if "group" in attrs and attrs["group"].s}

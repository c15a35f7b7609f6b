"""How many of a device's streams the captured graphs of a model hold."""

from __future__ import annotations

from .findings import DryGraph, DryRun

# The stream ids that a device has for captured graphs; each graph holds its own until it is destroyed.
MOST_STREAMS = 1984
_COLLECTIVES = ("_c10d_functional", "c10d", "npu_all_gather", "npu_mm_", "hcom")


def count_streams(run: DryRun, sizes: int) -> tuple[int, str]:
    """Count the streams of every graph captured once for each of ``sizes``.

    A graph is captured on one stream, and on one more for each group of ranks that it communicates with.

    Args:
        run: The dry run; its graphs are the pieces that are captured.
        sizes: How many batch sizes are captured.

    Returns:
        The number of streams, and the line of the report.
    """
    streams = [1 + len(_find_groups(graph)) for graph in run.graphs]
    needed = sizes * sum(streams)
    pieces = f"{len(streams)} graph{'s' * (len(streams) != 1)}"
    groups = sum(streams) - len(streams)
    line = f"captured at {sizes} sizes: {sizes} x ({pieces} + {groups} for communication) = {needed:,} streams"
    if needed <= MOST_STREAMS:
        return needed, f"{line} of {MOST_STREAMS:,}"
    most = MOST_STREAMS // max(sum(streams), 1)
    return needed, f"{line}, but a device has {MOST_STREAMS:,}: capture at most {most} sizes, or fewer pieces"


def _find_groups(graph: DryGraph) -> set[str]:
    """Return the groups of ranks that a graph communicates with; one for a graph that was not lowered."""
    if graph.dump is None:
        names = (name.replace("::", ".") for name in graph.operators)
        return {"group"} if any(part in name for name in names for part in _COLLECTIVES) else set()
    attributes = (node.proto.attr for node in graph.dump.order)
    return {attrs["group"].s.decode() for attrs in attributes if "group" in attrs and attrs["group"].s}

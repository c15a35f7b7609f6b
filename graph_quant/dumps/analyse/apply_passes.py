"""Runs graph_quant's passes on a dump. The modules of the passes are imported when they run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ... import passes
    from ..dump import Dump


def run_passes(dump: Dump, through: str = "on") -> tuple[Any, list[passes.Step]]:
    """Run passes on a copy of a dump's graph.

    Args:
        dump: The dump.
        through: ``on`` for all passes, or names of passes separated by commas.

    Returns:
        The GraphDef after the passes, and a record of what each pass changed.

    Raises:
        ValueError: If a pass does not exist.

    Examples:
        >>> graph_def, steps = run_passes(dump, "cse,dce")
        >>> after = Dump(graph_def)
    """
    from ... import passes

    graph_def = _copy_graph(dump)
    with passes.use(through):
        return graph_def, passes.run(graph_def, passes.current())


def find_held_nodes(dump: Dump) -> dict[str, str]:
    """Map each node that passes would remove, were it not for a control edge, to a description of that edge."""
    edges: dict[str, str] = {}
    for node in dump.order:
        for before in node.controls:
            edges.setdefault(node.name, f"it waits for {before}")
            edges.setdefault(before, f"{node.name} waits for it")
    if not edges:
        return {}
    from ... import passes

    return {name: edges[name] for name in passes.nodes_kept_by_control_edges(_copy_graph(dump), passes.NAMES)}


def _copy_graph(dump: Dump) -> Any:
    graph_def = type(dump.graph_def)()
    graph_def.CopyFrom(dump.graph_def)
    return graph_def


def pass_summary_lines(dump: Dump, after: Dump, steps: list[passes.Step]) -> Iterator[str]:
    r"""Compare node counts before and after passes.

    Args:
        dump: The dump before the passes.
        after: The dump after them.
        steps: The records that `run_passes` returned.

    Returns:
        Lines of text: all nodes, nodes by type, and the effect of each pass.

    Examples:
        >>> print("\n".join(pass_summary_lines(dump, after, steps)))
    """
    counts = [Counter(node.type for node in graph.nodes.values()) for graph in (dump, after)]
    yield f"passes: {len(dump.nodes)} nodes before, {len(after.nodes)} after"
    for kind, many in counts[0].most_common():
        if many != counts[1][kind]:
            yield f"  {kind}: {many} -> {counts[1][kind]}"
    for kind in sorted(counts[1].keys() - counts[0].keys()):
        yield f"  {kind}: 0 -> {counts[1][kind]}"
    for step in steps:
        yield f"  pass {step.name}: {len(step.replaced)} results replaced, {len(step.changed)} nodes changed"

"""Measured times and bounds, as they stand in a node's line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ge.graph import Node
from ..analyse.cost import Costs
from ..analyse.profile import Profile
from ..analyse.roofline import Chip, bound

if TYPE_CHECKING:
    from ..dump import Dump
    from .lines import Note


def timing(costs: Costs, profile: Profile | None, peaks: Chip | None) -> Note:
    """What to say of each node: its time and share, the least it can take and by what, and how far it is from that."""

    def note(dump: Dump, node: Node) -> str:
        measured = profile.nodes.get(node.name) if profile else None
        parts = []
        if profile and measured:
            runs = f" of {measured.runs} runs" if measured.runs > 1 else ""
            parts.append(f"{measured.each:.2f} us{runs}, {100 * profile.share(node.name):.1f} %")
        own = costs.of(dump) or Costs(dump)
        least = bound(dump, node, own, peaks) if peaks else None
        if least:
            ratio = f", {measured.each / least.microseconds:.1f} times that" if measured and least.microseconds else ""
            parts.append(f"at least {least.microseconds:.3g} us by {least.by}{ratio}")
        return f"  [{'; '.join(parts)}]" if parts else ""

    return note

"""Measured times and roofline bounds of nodes, as text and as data for the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...ge import Node
from ..analyse.cost import Costs
from ..analyse.profile import Measured, Profile
from ..analyse.roofline import Bound, ChipPeaks, roofline_bound

if TYPE_CHECKING:
    from ..dump import Dump


@dataclass(frozen=True)
class Timing:
    r"""Measured times and the peaks of a chip, either of which may be None.

    Args:
        costs: The costs of the dump.
        profile: The profile, from `join_profile`.
        peaks: The chip, from `find_chip`.

    Examples:
        >>> timing = Timing(Costs(dump), profile, find_chip("Ascend910B3"))
        >>> print("\n".join(node_lines(dump, note=timing.note)))
    """

    costs: Costs
    profile: Profile | None
    peaks: ChipPeaks | None
    _uncalled: dict[int, Costs] = field(default_factory=dict)

    def _known(self, dump: Dump, node: Node) -> tuple[Measured | None, Bound | None]:
        measured = self.profile.nodes.get(node.name) if self.profile else None
        return measured, roofline_bound(dump, node, self._costs(dump), self.peaks) if self.peaks else None

    def _costs(self, dump: Dump) -> Costs:
        costs = self.costs.of(dump) or self._uncalled.get(id(dump))
        if costs is None:
            costs = self._uncalled[id(dump)] = Costs(dump)
        return costs

    def note(self, dump: Dump, node: Node) -> str:
        """Format the time of a node, its share of the total, its bound, and the ratio of the two."""
        measured, least = self._known(dump, node)
        parts = []
        if self.profile and measured:
            runs = f" of {measured.runs} runs" if measured.runs > 1 else ""
            parts.append(f"{measured.per_run:.2f} us{runs}, {100 * self.profile.share(node.name):.1f} %")
        if least:
            ratio = (
                f", {measured.per_run / least.microseconds:.1f} times that" if measured and least.microseconds else ""
            )
            parts.append(f"at least {least.microseconds:.3g} us by {least.by}{ratio}")
        return f"  [{'; '.join(parts)}]" if parts else ""

    def facts(self, dump: Dump, node: Node) -> dict[str, Any]:
        """The same as a dictionary: microseconds per run, runs, share; the bound and its resource."""
        measured, least = self._known(dump, node)
        facts: dict[str, Any] = {}
        if self.profile and measured:
            share = round(self.profile.share(node.name), 6)
            facts |= {"measured": round(measured.per_run, 3), "runs": measured.runs, "share": share}
        if least:
            facts |= {"least": round(least.microseconds, 4), "by": least.by}
        return facts

"""Roofline bounds: the least time of each node on a chip, from its bytes and operations.

The peaks are those that Ascend/msmodeling publishes for the Atlas 800 A2 and for a die of the A3; they were not
measured here. Chips have the names used there; those of the A2 also the names of the chips.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ge import Node
from ..errors import DumpError
from .cost import Costs

if TYPE_CHECKING:
    from ..dump import Dump

_TERA = 1e12
_TEBI = 2**40
PEAK_SOURCE = "published by Ascend/msmodeling, not measured"


@dataclass(frozen=True)
class ChipPeaks:
    """Peaks per second: operations of the cube by dtype, 16-bit operations of the vector units, bytes of memory."""

    name: str
    float16: float
    bfloat16: float
    float32: float
    int8: float
    vector: float
    memory: float

    def cube_peak(self, dtypes: set[str]) -> float:
        """Peak operations per second of a contraction of these dtypes."""
        if dtypes & {"int8", "uint8", "int4", "qint8"}:
            return self.int8
        if "float32" in dtypes:
            return self.float32
        return self.bfloat16 if "bfloat16" in dtypes else self.float16

    def vector_peak(self, dtypes: set[str]) -> float:
        """Peak operations per second of the vector units, half as many for float32."""
        return self.vector / 2 if "float32" in dtypes else self.vector


def _make_chip(name: str, memory: float, *tera: float) -> ChipPeaks:
    float16, bfloat16, float32, int8, vector = (value * _TERA for value in tera)
    return ChipPeaks(name, float16, bfloat16, float32, int8, vector, memory * _TEBI)


# float16, bfloat16, float32, int8, vector: 24 cores, 20 cores, and 20 cores at a lower clock.
_376T, _313T, _280T = (376, 353.9, 99.5, 752, 22), (313, 294.9, 83, 626, 18), (280, 245.8, 75, 560, 16)
_PUBLISHED = {
    "A2_376T_64G": _make_chip("Atlas 800 A2 376T", 1.6, *_376T),
    "A2_313T_64G": _make_chip("Atlas 800 A2 313T", 1.6, *_313T),
    "A2_280T_64G": _make_chip("Atlas 800 A2 280T", 1.6, *_280T),
    "A2_280T_32G": _make_chip("Atlas 800 A2 280T with 32 GiB", 0.8, *_280T),
    "A3_752T_DIE": _make_chip("a die of the Atlas 800 A3 752T", 1.6, *_376T),
    "A3_560T_DIE": _make_chip("a die of the Atlas 800 A3 560T", 1.6, *_280T),
}
_PROFILES = {
    "Ascend910B2": "A2_376T_64G",
    "Ascend910B3": "A2_313T_64G",
    "Ascend910B4": "A2_280T_32G",
    "Ascend910B4-1": "A2_280T_64G",
}
CHIPS = {**{name: _PUBLISHED[profile] for name, profile in _PROFILES.items()}, **_PUBLISHED}


def find_chip(name: str) -> ChipPeaks:
    """Look up the published peaks of a chip.

    Args:
        name: For example ``Ascend910B3`` or ``A3_752T_DIE``.

    Returns:
        The chip.

    Raises:
        DumpError: If no peaks are published for it.

    Examples:
        >>> find_chip("Ascend910B3").int8
    """
    if name not in CHIPS:
        raise DumpError(f"no peaks are published for {name}; they are for {', '.join(CHIPS)}")
    return CHIPS[name]


@dataclass(frozen=True)
class Bound:
    """The least time of a node and the limiting resource: memory, cube or vector."""

    microseconds: float
    by: str


def roofline_bound(dump: Dump, node: Node, costs: Costs, peaks: ChipPeaks) -> Bound | None:
    """Compute the roofline bound of a node.

    Args:
        dump: The dump.
        node: A node of it.
        costs: The costs of the dump with all sizes known.
        peaks: The chip.

    Returns:
        The least time in ``microseconds`` and the limiting resource ``by``; None if a size is unknown, or the node
        does nothing.

    Examples:
        >>> roofline_bound(dump, dump.nodes["MatMulV2"], Costs(dump), find_chip("Ascend910B3"))
    """
    cost = costs.nodes[node.name]
    if not isinstance(cost.bytes, int) or not isinstance(cost.flops, int) or node.name in dump.calls:
        return None
    if not cost.bytes and not cost.flops:
        return None
    reads = {tensor.dtype for tensor in dump.inference.input_types(node)}
    peak, unit = (peaks.cube_peak(reads), "cube") if costs.contracts(node) else (peaks.vector_peak(reads), "vector")
    times = {"memory": 1e6 * cost.bytes / peaks.memory, unit: 1e6 * cost.flops / peak}
    slowest = max(times, key=times.__getitem__)
    return Bound(times[slowest], slowest)

"""What a chip needs at least for each node: the bytes it moves and the operations it does, by published peaks.

The peaks are those that Ascend/msmodeling publishes for the Atlas 800 A2; nobody measured them here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ge.graph import Node
from ...ge.kernels import CONTRACTION, CONVOLUTION
from ...host.kernels import facts
from ..errors import DumpError
from .cost import Costs

if TYPE_CHECKING:
    from ..dump import Dump

_TERA = 1e12
_MEMORY = 1.6 * 2**40  # bytes a second
SOURCE = "published by Ascend/msmodeling, not measured"


@dataclass(frozen=True)
class Chip:
    """Peaks in operations a second, of the cube by dtype and of the vector units."""

    name: str
    float16: float
    bfloat16: float
    float32: float
    int8: float
    vector: float
    memory: float = _MEMORY

    def cube(self, dtypes: set[str]) -> float:
        """The peak for a contraction of these dtypes."""
        if dtypes & {"int8", "uint8", "int4", "qint8"}:
            return self.int8
        if "float32" in dtypes:
            return self.float32
        return self.bfloat16 if "bfloat16" in dtypes else self.float16


def _chip(name: str, *tera: float) -> Chip:
    return Chip(name, *(each * _TERA for each in tera))


# 24 cores, 20 cores, and 20 cores at a lower clock.
CHIPS = {
    "Ascend910B2": _chip("Atlas 800 A2 376T", 376, 353.9, 99.5, 752, 22),
    "Ascend910B3": _chip("Atlas 800 A2 313T", 313, 294.9, 83, 626, 18),
    "Ascend910B4": _chip("Atlas 800 A2 280T", 280, 245.8, 75, 560, 16),
}


def chip(name: str) -> Chip:
    """The chip of this name."""
    if name not in CHIPS:
        raise DumpError(f"no peaks are published for {name}; they are for {', '.join(CHIPS)}")
    return CHIPS[name]


@dataclass(frozen=True)
class Bound:
    """The least time for a node, and what takes it: memory, cube or vector."""

    microseconds: float
    by: str


def bound(dump: Dump, node: Node, costs: Costs, peaks: Chip) -> Bound | None:
    """The bound of one node; None where a size is not known, or nothing is done."""
    cost = costs.nodes[node.name]
    if not isinstance(cost.bytes, int) or not isinstance(cost.flops, int) or node.name in dump.calls:
        return None
    if not cost.bytes and not cost.flops:
        return None
    reads = {found.dtype for found in dump.inference.reads(node)}
    contracts = facts(node.type).flops in (CONTRACTION, CONVOLUTION)
    peak, unit = (peaks.cube(reads), "cube") if contracts else (peaks.vector, "vector")
    times = {"memory": 1e6 * cost.bytes / peaks.memory, unit: 1e6 * cost.flops / peak}
    slowest = max(times, key=times.__getitem__)
    return Bound(times[slowest], slowest)

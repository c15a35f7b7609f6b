"""Passes over a GE graph: the same results from fewer nodes.

They run after TorchAir's own, on the host and on a device. Each is one module that rests on what ``known`` proves of
shapes, dtypes and small values; what is not proved stays as it is. Nodes that write their inputs, nodes with control
edges, inputs and outputs are never touched. ``GRAPH_QUANT_PASSES`` switches them.
"""

from __future__ import annotations

from .hook import OFF, VARIABLE, current, simplify, use
from .run import NAMES, Step, held, run

__all__ = ["NAMES", "OFF", "VARIABLE", "Step", "current", "held", "run", "simplify", "use"]

"""Passes over GE graphs: the same results, bit for bit, from fewer nodes.

They run after TorchAir's own passes, on the host and on a device. Each pass is one module. It relies on the dtypes,
shapes and small values that ``inference`` proves, and leaves alone what is not proved. Nodes that write their inputs,
nodes with control edges, inputs and outputs are never touched. ``GRAPH_QUANT_PASSES`` selects the passes.
"""

from __future__ import annotations

from .hook import OFF, VARIABLE, current, simplify, use
from .run import NAMES, Step, nodes_kept_by_control_edges, run

__all__ = ["NAMES", "OFF", "VARIABLE", "Step", "current", "nodes_kept_by_control_edges", "run", "simplify", "use"]

"""Reading large dumps: the inspect command relative to text_format on the same file, and its memory growth.

The dump is the block of the tests, repeated up to the requested number of nodes. Times are wall times,
memory is the peak of a new process; both are measured in sequence in one run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from graph_quant import dumps
from graph_quant.ge.protobuf import new_graph

BLOCK = Path(__file__).parent.parent / "tests" / "dumps" / "data" / "upstream_block.txt"
_PARSE = """
import sys
from google.protobuf import text_format
from graph_quant.ge.protobuf import new_graph
text = open(sys.argv[1], encoding="utf-8").read()
start = time.perf_counter()
text_format.Parse(text, new_graph())
"""
_INSPECT = """
import os, sys
start = time.perf_counter()
from graph_quant.cli import main
assert main(["inspect", sys.argv[1], "-o", os.devnull]) == 0
"""
_REPORT = """
import resource
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def stacked(nodes: int) -> Any:
    """Return the block repeated as a chain."""
    block = dumps.load(BLOCK)
    graph = new_graph("stacked")
    layer = 0
    while len(graph.op) < nodes:
        for node in block.order:
            if node.type == "NetOutput" or (layer and node.name == "arg2_1"):
                continue
            op = graph.op.add()
            op.CopyFrom(node.proto)
            op.name = f"layer{layer}_{node.name}"
            last = f"layer{layer - 1}_Add_3:0"
            own = [name and f"layer{layer}_{name}" for name in node.proto.input]
            op.input[:] = [last if layer and name == f"layer{layer}_arg2_1:0" else name for name in own]
        layer += 1
    return graph


def timed(code: str, path: Path) -> tuple[float, float]:
    """Return seconds and peak MiB of a new process."""
    ran = subprocess.run(
        [sys.executable, "-c", f"import time\n{code}{_REPORT}", path], capture_output=True, text=True, check=True
    )
    seconds, memory = ran.stdout.split()[-2:]
    return float(seconds), float(memory)


def measure(nodes: int = 100_000) -> dict[str, dict[str, float]]:
    """Return figures for all nodes and for half of them, and the growth of memory."""
    rows: dict[str, dict[str, float]] = {}
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        for count in (nodes, nodes // 2):
            path = Path(folder) / "stacked.txt"
            path.write_text(str(stacked(count)), encoding="utf-8")
            parse, inspect = timed(_PARSE, path), timed(_INSPECT, path)
            peaks.append(inspect[1])
            rows[f"{count} nodes"] = {
                "inspect / text_format": round(inspect[0] / parse[0], 2),
                "bar": 3,
                "inspect s": round(inspect[0], 1),
                "file MiB": round(path.stat().st_size / 2**20),
                "peak MiB": round(inspect[1]),
            }
    return {**rows, "memory for twice the nodes": {"times": round(peaks[0] / peaks[1], 2)}}

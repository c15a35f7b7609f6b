"""Reading large dumps: the inspect command against text_format alone on the same file, and the growth of its memory.

The dump is the block of the tests, stacked to the asked number of nodes. Times are processor times and memory peaks
of fresh processes, taken one after the other in one run.

    python benchmarks/dumps.py --nodes 100000 --json dumps.json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from graph_quant import dumps
from graph_quant.dumps.schema import new_graph

BLOCK = Path(__file__).parent.parent / "tests" / "dumps" / "data" / "upstream_block.txt"
_PARSE = """
import sys
from google.protobuf import text_format
from graph_quant.dumps.schema import new_graph
text = open(sys.argv[1], encoding="utf-8").read()
start = time.process_time()
text_format.Parse(text, new_graph())
"""
_INSPECT = """
import os, sys
start = time.process_time()
from graph_quant.cli import main
assert main(["inspect", sys.argv[1], "-o", os.devnull]) == 0
"""
_REPORT = """
import resource
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def stacked(nodes: int) -> Any:
    """The block again and again, each one fed by the one before."""
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
    """Seconds and peak MiB of a fresh process."""
    ran = subprocess.run(
        [sys.executable, "-c", f"import time\n{code}{_REPORT}", path], capture_output=True, text=True, check=True
    )
    seconds, memory = ran.stdout.split()[-2:]
    return float(seconds), float(memory)


def measure(nodes: int) -> list[dict[str, float]]:
    """Figures at the whole, and at a half of the number of nodes."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for count in (nodes, nodes // 2):
            path = Path(folder) / "stacked.txt"
            path.write_text(str(stacked(count)), encoding="utf-8")
            parse, inspect = timed(_PARSE, path), timed(_INSPECT, path)
            rows.append({
                "nodes": count,
                "file_mib": path.stat().st_size / 2**20,
                "inspect_over_text_format": inspect[0] / parse[0],
                "inspect_seconds": inspect[0],
                "text_format_seconds": parse[0],
                "inspect_peak_mib": inspect[1],
            })  # fmt: skip
            print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    rows = measure(options.nodes)
    growth = rows[0]["inspect_peak_mib"] / rows[1]["inspect_peak_mib"]
    print(f"inspect takes {rows[0]['inspect_over_text_format']:.2f} times text_format (bar: at most 3)")
    print(f"peak memory grows {growth:.2f} times for twice the nodes (linear: at most 2)")
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "memory_growth": growth}, indent=1))


if __name__ == "__main__":
    main()

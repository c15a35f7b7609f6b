"""Ranks start, communicate, eagerly and in a graph, and end: again and again, and none of them hangs."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

STARTS = int(os.environ.get("GRAPH_QUANT_STARTS", "0"))
SCRIPT = str(Path(__file__).with_name("start.py"))
RUN = [sys.executable, "-m", "graph_quant", "run"]
pytestmark = pytest.mark.skipif(not STARTS, reason="GRAPH_QUANT_STARTS says how often: make coverage")


@pytest.mark.parametrize("start", range(STARTS))
def test_no_start_hangs(start: int) -> None:
    ranks = 4 if start % 4 == 3 else 2
    done = subprocess.run([*RUN, "--ranks", str(ranks), SCRIPT], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[rank {rank}] {rank}" for rank in range(ranks)]


def test_torchrun_starts_ranks_on_two_nodes() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = ["--nnodes", "2", "--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port", str(port)]
    nodes = [
        subprocess.Popen(
            [*RUN, "-m", "torch.distributed.run", *shared, "--node-rank", str(node), SCRIPT],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for node in range(2)
    ]
    output = [node.communicate(timeout=240) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], output
    assert sorted(line for printed, _ in output for line in printed.split()) == ["0", "1", "2", "3"]

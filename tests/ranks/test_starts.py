"""Ranks start, communicate, eagerly and in a graph, and end: again and again, and none of them hangs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

STARTS = int(os.environ.get("GRAPH_QUANT_STARTS", "0"))


@pytest.mark.skipif(not STARTS, reason="GRAPH_QUANT_STARTS says how often: make coverage")
@pytest.mark.parametrize("start", range(STARTS))
def test_no_start_hangs(start: int) -> None:
    ranks = 4 if start % 4 == 3 else 2
    script = Path(__file__).with_name("start.py")
    command = [sys.executable, "-m", "graph_quant", "run", "--ranks", str(ranks), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[rank {rank}] {rank}" for rank in range(ranks)]

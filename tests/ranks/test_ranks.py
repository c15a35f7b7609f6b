"""Two ranks on this machine: torch.distributed on the host NPU, and how `run --ranks` starts and stops them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from graph_quant.start import preload

HERE = Path(__file__).parent
RUN = [sys.executable, "-m", "graph_quant", "run"]
PARTS = [
    "devices", "reductions", "moves", "point_to_point", "coalesced", "under_way", "groups", "mistakes", "graphs",
    "products", "experts", "fused_graphs", "windows", "verification", "parallel", "training",
]  # fmt: skip


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *arguments], capture_output=True, text=True, timeout=240)


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_every_collective_between_two_ranks() -> None:
    done = run("--ranks", "2", str(HERE / "collectives.py"))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(f"[rank {rank}] {part} done" for rank in (0, 1) for part in PARTS)


def test_the_other_rank_names_a_killed_rank() -> None:
    done = run("--ranks=2", str(HERE / "killed.py"))
    assert done.returncode == 128 + 9, done.stderr
    assert "graph-quant run: rank 1 ended with signal 9; the others are stopped" in done.stderr
    errors = [line for line in done.stdout.splitlines() if "another rank has ended" in line]
    eager, graph, captured = errors
    assert "[rank 0] hccl all_reduce in group 1, rank 0 of 2: another rank has ended" in eager
    assert "HcomAllReduce" in graph
    assert "replay: hccl::all_reduce" in captured


def test_a_graph_does_not_keep_the_threads_of_its_group() -> None:
    done = run("--ranks", "2", str(HERE / "start.py"))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[rank 0] 0", "[rank 1] 1"]


def test_the_first_failure_stops_all_with_its_exit_code() -> None:
    code = "import os, sys, time; print(os.getpid(), flush=True); os.environ['RANK'] == '0' and time.sleep(600); "
    done = run("--ranks", "2", "-c", code + "time.sleep(0.5); print('x', file=sys.stderr); sys.exit(7)")
    assert done.returncode == 7
    assert "[rank 1] x" in done.stderr
    processes = [int(line.split()[-1]) for line in done.stdout.splitlines()]
    assert len(processes) == 2
    assert not any(is_alive(process) for process in processes)


def test_ranks_and_their_children_end_with_the_command() -> None:
    code = "import os, subprocess as s; child = s.Popen(['sleep', '600']); print(os.getpid(), child.pid); child.wait()"
    with subprocess.Popen([*RUN, "--ranks", "2", "-c", code], stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        lines = [command.stdout.readline() for _ in range(2)]
        processes = [int(word) for line in lines for word in line.split()[2:]]
        assert len(processes) == 4
        command.kill()
    deadline = time.monotonic() + 60
    while any(is_alive(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_alive(process) for process in processes)


@pytest.mark.parametrize(
    "arguments", [("--ranks",), ("--ranks", "0", "x.py"), ("--ranks=two", "x.py"), ("--ranks", "2")]
)
def test_ranks_needs_a_number_and_a_script(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert "--ranks must be followed by" in done.stderr


@pytest.mark.parametrize("devices", ["two", "0", "65"])
def test_an_invalid_number_of_devices_is_refused(devices: str, monkeypatch) -> None:
    monkeypatch.setenv("GRAPH_QUANT_DEVICES", devices)
    with pytest.raises(
        preload.HostNpuError, match=f"GRAPH_QUANT_DEVICES must be a number from 1 to 64, got '{devices}'"
    ):
        preload._load()

"""Captured graphs hold streams of the device until they are destroyed, and are refused beyond its number."""

import ctypes
import gc
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import torch
from graph_quant.dryrun import DryGraph, DryRun, count_streams
from graph_quant.host import library
from torch import Tensor


@pytest.fixture
def streams() -> Iterator[ctypes.Array[ctypes.c_uint32]]:
    """The streams that are held, and the most that can be; the latter is restored."""
    counts = (ctypes.c_uint32 * 2).in_dll(
        ctypes.CDLL(f"{library.DIRECTORY}/{library.RUNTIME}"), "host_captured_streams"
    )
    gc.collect()  # graphs of other tests
    before = counts[1]
    assert before == 1984
    yield counts
    counts[1] = before


def _capture(x: Tensor, side: torch.npu.Stream | None = None) -> torch.npu.NPUGraph:
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, stream=torch.npu.Stream()):  # of the pool in turn: another one than ``side``
        x.add_(1)
        if side is not None:
            side.wait_stream(torch.npu.current_stream())
            with torch.npu.stream(side):
                x.add_(1)
            torch.npu.current_stream().wait_stream(side)
    return graph


def test_graphs_hold_their_streams_until_they_are_destroyed(streams: ctypes.Array[ctypes.c_uint32]) -> None:
    x, before = torch.zeros(3).npu(), streams[0]
    one = _capture(x)
    assert streams[0] == before + 1
    two = _capture(x, torch.npu.Stream())
    assert streams[0] == before + 3
    streams[1] = before + 3
    with pytest.raises(RuntimeError, match=r"stream resources are insufficient \(207008\): captured graphs hold"):
        _capture(x)
    one.reset()
    assert streams[0] == before + 2
    three = _capture(x)
    two.reset()
    three.reset()
    assert streams[0] == before


def test_a_branch_to_a_stream_is_refused_too(streams: ctypes.Array[ctypes.c_uint32]) -> None:
    x = torch.zeros(3).npu()
    streams[1] = streams[0] + 1
    with pytest.raises(RuntimeError, match="stream resources are insufficient"):
        _capture(x, torch.npu.Stream())


def test_streams_of_the_program_count_too(streams: ctypes.Array[ctypes.c_uint32]) -> None:
    """But for those that torch_npu creates itself: 2 pools of 32 streams, and 2 at its start."""
    x = torch.zeros(3).npu()
    _capture(x).reset()
    runtime = ctypes.CDLL(f"{library.DIRECTORY}/{library.RUNTIME}")
    created = ctypes.c_uint32.in_dll(runtime, "host_created_streams")
    handles = [ctypes.c_void_p() for _ in range(66 + 3 - created.value)]
    assert not any(runtime.aclrtCreateStream(ctypes.byref(handle)) for handle in handles)
    streams[1] = streams[0] + 3
    try:
        with pytest.raises(RuntimeError, match="the program 3 beside torch_npu's"):
            _capture(x)
        assert runtime.aclrtCreateStream(ctypes.byref(ctypes.c_void_p())) == 207008
    finally:
        assert not any(map(runtime.aclrtDestroyStream, handles))
    _capture(x).reset()


def test_plan_counts_sizes_pieces_and_groups() -> None:
    plain = DryGraph("layer", None, Counter())
    run = DryRun("model", [plain] * 33)
    needed, most, line = count_streams(run, 24)
    assert (needed, most) == (792, 1984)
    assert line == "captured at 24 sizes: 24 x (33 graphs + 0 for communication) = 792 streams of 1,984"
    plain.operators["_c10d_functional.all_reduce.default"] = 2
    needed, most, line = count_streams(run, 35)
    assert (needed, most) == (2310, 1984)
    assert line.endswith("= 2,310 streams, but a device has 1,984: capture at most 30 sizes, or fewer pieces")


def test_plan_prints_the_streams(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    script = "import torch\nmodel = torch.nn.Linear(8, 4).npu()\ninputs = (torch.zeros(2, 8).npu(),)\n"
    code = (
        "import pathlib, sys\nfrom graph_quant.cli import main\n"
        f"pathlib.Path('m.py').write_text({script!r})\n"
        "sys.exit(main(['plan', 'm.py', '--capture-sizes', '2000']))"
    )
    result = run_python(code)
    assert "captured at 2000 sizes: 2000 x (1 graph + 0 for communication) = 2,000 streams, but" in result.stdout
    assert result.returncode == 1

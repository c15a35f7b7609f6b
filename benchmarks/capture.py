"""Captured graphs: the cost of a replay relative to the same kernels in a loop, and to eager execution."""

import gc
import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
import torch_npu  # noqa: F401
from torch import Tensor

OPERATORS = 200
_PARTS = ("add", "mul", "relu", "sub")


def measure() -> dict[str, Any]:
    """Return all figures."""
    return {"a chain of 200 small operators": chain_cost(), "1,000 replays": memory_growth()}


def chain_cost(rounds: int = 60) -> dict[str, float]:
    """Time a replay, the same kernels on prepared CPU tensors, and the same eager calls, alternately."""
    x = torch.rand(8, 8, device="npu")
    graph = torch.npu.NPUGraph()  # type: ignore[attr-defined]
    with torch.npu.graph(graph):  # type: ignore[attr-defined]
        captured = _chain(x)
    eager = _chain(x)
    graph.replay()
    assert torch.equal(captured, eager)
    calls = _prepared(x.cpu())

    def plain() -> None:
        for call in calls:
            call()

    times = _in_turn({"replay": graph.replay, "plain loop": plain, "eager": lambda: _chain(x)}, rounds)
    return {
        **{f"{name} µs": round(taken * 1e6, 1) for name, taken in times.items()},
        "replay / plain loop": round(times["replay"] / times["plain loop"], 2),
        "replay / eager": round(times["replay"] / times["eager"], 2),
    }


def _chain(x: Tensor) -> Tensor:
    for index in range(OPERATORS):
        match _PARTS[index % len(_PARTS)]:
            case "add":
                x = x + 0.5
            case "mul":
                x = x * 0.9
            case "relu":
                x = x.relu()
            case _:
                x = x - 0.1
    return x


def _prepared(x: Tensor) -> list[Callable[[], Any]]:
    """Return the fastest form of the chain: all arguments and results are allocated beforehand."""
    from functools import partial

    aten = torch.ops.aten
    numbers = {"add": torch.tensor(0.5), "mul": torch.tensor(0.9), "sub": torch.tensor(0.1)}
    calls: list[Callable[[], Any]] = []
    for index in range(OPERATORS):
        name, result = _PARTS[index % len(_PARTS)], torch.empty_like(x)
        packet = getattr(aten, name)
        arguments = (x,) if name == "relu" else (x, numbers[name])
        calls.append(partial(packet.out._op, *arguments, out=result))
        x = result
    return calls


def _in_turn(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in calls}
    gc.disable()
    for _ in range(rounds):
        for name, call in calls.items():
            call()  # each is measured with its own data in the cache, not with what the one before it left there
            start = time.perf_counter()
            call()
            taken[name].append(time.perf_counter() - start)
    gc.enable()
    return {name: median(times) for name, times in taken.items()}


def memory_growth(replays: int = 1000) -> dict[str, float]:
    """Replay a graph that allocates during capture: neither process nor device memory may grow."""
    x = torch.rand(256, 256, device="npu")
    graph = torch.npu.NPUGraph()  # type: ignore[attr-defined]
    with torch.npu.graph(graph):  # type: ignore[attr-defined]
        _ = (x @ x).softmax(-1) @ x
    for _ in range(10):
        graph.replay()
    device: Any = torch.npu  # type: ignore[attr-defined]
    before, resident = device.memory_allocated(), _resident()
    for _ in range(replays):
        graph.replay()
    return {"device bytes more": device.memory_allocated() - before, "resident KB more": _resident() - resident}


def _resident() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024

"""Two ranks: an all-reduce on npu tensors relative to Gloo's on CPU tensors, alternately in one run."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

SIZES = {"16 B": 4, "64 MB": 16 << 20}


def measure() -> dict[str, Any]:
    """Return all figures, as the first of two ranks of this script prints them."""
    command = [sys.executable, "-m", "graph_quant", "run", "--ranks", "2", __file__]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("[rank 0] {")]
    return {"all_reduce over 2 ranks": json.loads(line.removeprefix("[rank 0] "))}


def figures() -> dict[str, Any]:
    """Time both alternately; the reported times are the first decile, which machine load disturbs less."""
    gloo = dist.new_group(backend="gloo")
    rows = {}
    for name, elements in SIZES.items():
        cpu, npu = torch.zeros(elements), torch.zeros(elements).npu()
        calls: dict[str, Callable[[], Any]] = {
            "Gloo": lambda cpu=cpu: dist.all_reduce(cpu, group=gloo),
            "hccl": lambda npu=npu: dist.all_reduce(npu),
        }
        times: dict[str, list[float]] = {"Gloo": [], "hccl": []}
        for _ in range(300 if elements < 1000 else 20):
            for title, call in calls.items():
                begin = time.perf_counter()
                call()
                times[title].append(time.perf_counter() - begin)
        quick = {title: sorted(taken)[len(taken) // 10] * 1e6 for title, taken in times.items()}
        micros = {f"{title} µs": round(value) for title, value in quick.items()}
        rows[name] = {**micros, "ratio": round(quick["hccl"] / quick["Gloo"], 2)}
    return rows


if __name__ == "__main__":
    rank = int(os.environ["RANK"])
    torch.npu.set_device(rank)  # type: ignore[attr-defined]
    dist.init_process_group("hccl")
    print(json.dumps(figures()))
    dist.destroy_process_group()

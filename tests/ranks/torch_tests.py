"""Run by every rank: PyTorch's own tests of distributed backends, on npu tensors and the backend hccl.

They are written for cuda and NCCL; torch_npu's transfer_to_npu makes npu and HCCL of both. A test is run by all ranks
in a group of its own, and has passed where it has on every one. `make coverage` runs them.
"""

import os
import sys
import tempfile
import traceback
import unittest
import warnings
from collections import Counter
from datetime import timedelta
from functools import cache
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LIMIT = timedelta(seconds=20)
# What no test can find here, by what is in their names.
LEFT_OUT = {
    "_object": "a rank would work on two devices",
    "profiler": "profiling needs an NPU",
    "SyncBatchNorm": "aten::batch_norm_stats needs an NPU",
}


def tests() -> Any:
    """The tests, as a rank runs one that stands in a group already."""
    os.environ.update(BACKEND="nccl", TEMP_DIR=tempfile.gettempdir())
    import_module("torch_npu.contrib.transfer_to_npu")  # from here on, cuda is npu
    torch.cuda.nccl.version = lambda: (2, 27, 0)  # tests of messages ask for it
    torch.cuda.get_device_capability = cache(lambda *_: (8, 0))  # a broadcast asks for it
    upstream = import_module("torch.testing._internal.distributed.distributed_test")

    class Tests(upstream.TestDistBackend, upstream.DistributedTest._DistTestBase):  # type: ignore[misc, name-defined]
        def setUp(self) -> None:
            """Nothing: processes and group are there."""

        def tearDown(self) -> None:
            """Nothing, likewise."""

        def _barrier(self, *_: Any, **__: Any) -> None:
            dist.barrier()

        def call_dist_op(self, _: str, is_async: bool, op: Any, *args: Any, **kwargs: Any) -> None:
            """Without the profiler, which needs an NPU."""
            second = kwargs.pop("secondary_op_call", None)
            for name in ("expect_event", "profile_cuda", "tensor_shapes"):
                kwargs.pop(name, None)
            works = [op(*args, **kwargs), *([] if second is None else [second()])]
            if is_async:
                for work in works:
                    work.wait()

    return Tests


def outcome(test: Any, name: str, store: dist.Store) -> str:
    """How a test ended on this rank: passed, skipped, or failed and why."""
    skip = getattr(getattr(type(test), name), "__unittest_skip_why__", None)
    left_out = next((why for part, why in LEFT_OUT.items() if part in name), None)
    if skip is not None or left_out is not None:
        return f"left out: {left_out}" if skip is None else f"skipped: {skip}"
    test.rank = RANK
    torch.npu.set_device(RANK)
    torch.manual_seed(0)  # as in a process of its own, the same on every rank
    try:
        dist.init_process_group("hccl", store=store, rank=RANK, world_size=RANKS, timeout=LIMIT)
        getattr(test, name)()
    except unittest.SkipTest as skip:
        return f"skipped: {skip}"
    except SystemExit as skip:
        skips = import_module("torch.testing._internal.common_distributed").TEST_SKIPS.values()
        return f"skipped: {next((each.message for each in skips if each.exit_code == skip.code), skip.code)}"
    except Exception as error:
        if os.environ.get("SHOW"):
            traceback.print_exc()
        said = str(error).partition("To execute this test")[0]
        return f"failed: {type(error).__name__}: {' '.join(said.split())[:200]}"
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    return "passed"


def main(wanted: str) -> int:
    """Run all tests whose names contain `wanted`; tell how many passed, and what did not."""
    warnings.simplefilter("ignore")
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(*address, RANKS, RANK == 0, timedelta(seconds=300))
    case, counts = tests(), Counter[str]()
    for name in unittest.TestLoader().getTestCaseNames(case):
        if wanted not in name:
            continue
        store.set(f"{name} on {RANK}", outcome(case(name), name, dist.PrefixStore(name, store)))
        told = [store.get(f"{name} on {rank}").decode() for rank in range(RANKS)]
        worst = next((each for each in told if each.startswith("failed")), told[0])
        counts[worst.partition(":")[0]] += 1
        if RANK == 0 and worst != "passed":
            print(name, worst, flush=True)
    if RANK == 0:
        told = [f"{number} {how}" for how, number in sorted(counts.items())]
        print(f"PyTorch's tests of a backend, on {RANKS} ranks: {', '.join(told)}")
    return 0


if __name__ == "__main__":
    sys.exit(main("".join(sys.argv[1:])))

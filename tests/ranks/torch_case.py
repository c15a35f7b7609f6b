"""One rank of one of PyTorch's own tests of distributed backends, on npu tensors and the backend hccl.

The tests are written for cuda and NCCL; torch_npu's transfer_to_npu makes npu and HCCL of both. Importing this loads
them, so that it is done once for all the processes that are forked from the one that has.
"""

import contextlib
import os
import sys
import tempfile
import traceback
import unittest
import warnings
from datetime import timedelta
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import graph_quant  # noqa: F401  (before torch)
import torch
import torch.distributed as dist
import torch_npu  # noqa: F401

LIMIT = timedelta(seconds=30)
# What no test can find here, by what is in their names.
LEFT_OUT = {
    "profil": "profiling needs an NPU",
    "SyncBatchNorm": "aten::batch_norm_stats needs an NPU",
    "sync_bn": "aten::batch_norm_stats needs an NPU",
}

os.environ.setdefault("BACKEND", "nccl")
os.environ.setdefault("TEMP_DIR", tempfile.gettempdir())
import_module("torch_npu.contrib.transfer_to_npu")  # from here on, cuda is npu
torch.cuda.nccl.version = lambda: (2, 27, 0)  # tests of messages ask for it
torch.cuda.get_device_capability = cache(lambda *_: (8, 0))  # a broadcast asks for it
upstream = import_module("torch.testing._internal.distributed.distributed_test")
skips = import_module("torch.testing._internal.common_distributed").TEST_SKIPS.values()


class Tests(upstream.TestDistBackend, upstream.DistributedTest._DistTestBase):  # type: ignore[misc, name-defined]
    """PyTorch's tests, run by a rank whose group exists already."""

    def setUp(self) -> None:
        """Do nothing: processes and group exist."""

    def tearDown(self) -> None:
        """Do nothing."""

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


def run_rank(name: str, rank: int, ranks: int, folder: str) -> None:
    """Run a test as one of its ranks; the outcome is written to a file named by the rank, last of all."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), TEMP_DIR=folder)
    printed = os.open(f"{folder}/printed{rank}", os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(printed, stream)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    ended = _outcome(name, rank, ranks, folder)
    written = Path(folder, f"{rank}.part")
    written.write_text(ended, encoding="utf-8")
    written.rename(Path(folder, str(rank)))
    sys.stdout.flush()
    os._exit(0)


def _outcome(name: str, rank: int, ranks: int, folder: str) -> str:
    """Return the outcome on this rank: passed, skipped, or failed with the reason."""
    skip = getattr(getattr(Tests, name), "__unittest_skip_why__", None)
    left_out = next((why for part, why in LEFT_OUT.items() if part in name), None)
    if skip is not None or left_out is not None:
        return f"left out: {left_out}" if skip is None else f"skipped: {skip}"
    test = Tests(name)
    test.rank, test.file_name = rank, f"{folder}/store"
    torch.npu.set_device(rank)
    torch.manual_seed(0)  # the same on every rank
    limit = timedelta(seconds=upstream.CUSTOM_PG_TIMEOUT[name]) if name in upstream.CUSTOM_PG_TIMEOUT else LIMIT
    try:
        dist.init_process_group("hccl", init_method=test.init_method, rank=rank, world_size=ranks, timeout=limit)
        dist.barrier()
        getattr(test, name)()
    except unittest.SkipTest as skip:
        return f"skipped: {skip}"
    except SystemExit as skip:
        return f"skipped: {next((reason.message for reason in skips if reason.exit_code == skip.code), skip.code)}"
    except Exception as error:
        traceback.print_exc()
        message = str(error).partition("To execute this test")[0]
        return f"failed: {type(error).__name__}: {' '.join(message.split())[:240]}"
    with contextlib.suppress(Exception):  # a test may have left the group in pieces
        dist.barrier()
        dist.destroy_process_group()
    return "passed"

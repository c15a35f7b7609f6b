"""Run by both of two ranks: rank 1 is killed while rank 0 waits for it."""

import os
import signal
import time
import warnings

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401

warnings.simplefilter("ignore")
RANK = int(os.environ["RANK"])
torch.npu.set_device(RANK)
dist.init_process_group("hccl")
dist.barrier()
x = torch.ones(1).npu()
if RANK == 1:
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the command stops this rank; it first says what it saw
try:
    dist.all_reduce(x)
except RuntimeError as error:
    print(error, flush=True)
os._exit(1)

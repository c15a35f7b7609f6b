"""Run by both of two ranks: rank 1 is killed while rank 0 waits for it, eagerly and in graphs."""

import os
import signal
import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch_npu  # noqa: F401

warnings.simplefilter("ignore")
RANK = int(os.environ["RANK"])
torch.npu.set_device(RANK)
dist.init_process_group("hccl")
x = torch.ones(1).npu()
groups = [dist.new_group() for _ in range(3)]  # one each, for each is to see for itself


def summed(x: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    return functional.all_reduce(x, "sum", group) + 1


backends = ("npu", "npugraph_ex")
calls = [summed, *(torch.compile(summed, backend=backend, fullgraph=True) for backend in backends)]
for call, group in zip(calls, groups, strict=True):
    assert call(x, group).item() == 3
dist.barrier()
if RANK == 1:
    os.kill(os.getpid(), signal.SIGKILL)
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the command stops this rank; it first says what it saw
for call, group in zip(calls, groups, strict=True):
    try:
        call(x, group)
    except RuntimeError as error:
        print(*str(error).split(), flush=True)
os._exit(1)

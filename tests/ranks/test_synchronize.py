"""torch.npu.synchronize waits for collectives that another thread runs."""

import time

import torch
import torch.distributed as dist
from graph_quant.host.collectives import registry
from graph_quant.host.collectives.work import AsyncWork


def test_synchronize_waits_for_asynchronous_collectives() -> None:
    dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        dist.all_reduce(torch.ones(2).npu())
        (hccl,) = registry._backends.values()
        ended = []
        hccl._queue.submit(AsyncWork(lambda: (time.sleep(0.3), ended.append(True))[1], "slow", []))
        torch.npu.synchronize()
        assert ended
    finally:
        dist.destroy_process_group()

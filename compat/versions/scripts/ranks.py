"""Two ranks: collectives eagerly, in a GE graph and in a captured graph (run by ``graph-quant run --ranks 2``)."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401
from torch.distributed._functional_collectives import all_gather_tensor, all_reduce

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.npu.set_device(RANK)
dist.init_process_group("hccl", timeout=timedelta(seconds=120))

mine = torch.full((2, 4), float(RANK + 1)).npu()
total = mine.clone()
dist.all_reduce(total)
assert torch.equal(total.cpu(), torch.full((2, 4), sum(range(1, RANKS + 1)) * 1.0))
shards = torch.empty(1, 4).npu()
dist.reduce_scatter_tensor(shards, mine)
assert torch.equal(shards.cpu(), total.cpu()[:1])
gathered = [torch.empty_like(mine) for _ in range(RANKS)]
dist.all_gather(gathered, mine)
assert [tensor[0, 0].item() for tensor in gathered] == [rank + 1 for rank in range(RANKS)]


def step(x):
    return all_gather_tensor(all_reduce(x * 2, "sum", dist.group.WORLD) + 1, 0, dist.group.WORLD)


expected = torch.full((2 * RANKS, 4), total[0, 0].item() * 2 + 1)
result = torch.compile(step, backend="npu", fullgraph=True, dynamic=False)(mine)
assert torch.equal(result.cpu(), expected), result

static = mine.clone()
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    summed = static * 1
    dist.all_reduce(summed)
static.mul_(3)
graph.replay()
assert torch.equal(summed.cpu(), total.cpu() * 3)
dist.barrier()
dist.destroy_process_group()

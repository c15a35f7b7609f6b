"""Run by every rank: it joins the others, they add up and send what they have, eagerly and captured, and leave."""

import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401

torch.npu.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("hccl")
x, graph = torch.ones(1).npu(), torch.npu.NPUGraph()
dist.all_reduce(x)
with torch.npu.graph(graph):
    dist.all_reduce(x)
graph.replay()
assert x.item() == dist.get_world_size() ** 2
rank, ranks = dist.get_rank(), dist.get_world_size()
came = torch.zeros(1).npu()
for work in dist.batch_isend_irecv(
    [dist.P2POp(dist.isend, x, (rank + 1) % ranks), dist.P2POp(dist.irecv, came, (rank - 1) % ranks)]
):
    work.wait()
assert came.item() == x.item()
dist.destroy_process_group()
# The graph still lives; threads of the group and its store do not, which could be in the way of the process's end.
threads = {task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")}
assert not [name for name in threads if name.startswith(("gloo", "pt_"))], threads
print(os.environ["RANK"])

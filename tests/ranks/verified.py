"""Run by every rank, and under verify: plain and fused communication in a graph, verified by each of them."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch_npu
from graph_quant.verification import capture
from torch.distributed._functional_collectives import all_gather_tensor, all_reduce

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def step(x: torch.Tensor, weight: torch.Tensor, name: str) -> torch.Tensor:
    summed = all_reduce(x @ weight, "sum", dist.group.WORLD) + 1
    return all_gather_tensor(torch_npu.npu_mm_all_reduce_base(summed, weight, name), 0, dist.group.WORLD) * 2


def run() -> None:
    name = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(RANK)
    torch.manual_seed(RANK)
    x, weight = torch.randn(4, 16).half().npu(), torch.randn(16, 16).half().npu()
    torch.compile(step, backend="npu", fullgraph=True, dynamic=False)(x, weight, name)


def verification() -> None:
    with capture(title="step") as report:
        run()
    assert report.title == f"step, rank {RANK} of {RANKS}"
    (graph,) = report.graphs
    statuses = {node.ge[-1].type: node.status.value for node in graph.nodes}
    assert {"HcomAllReduce", "MatmulAllReduce", "HcomAllGather"} <= set(statuses)
    assert set(statuses.values()) == {"equal"}, statuses
    assert report.ok


if __name__ == "__main__":
    torch.npu.set_device(RANK)
    dist.init_process_group("hccl", timeout=timedelta(seconds=60))
    run()
    dist.barrier()
    dist.destroy_process_group()

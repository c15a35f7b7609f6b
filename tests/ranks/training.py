"""Run by every rank: a step with PyTorch's own tensor parallelism and with FSDP2, against the step of one rank."""

import copy
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def block() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16)).npu()


def step(model: nn.Module, x: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model(x).square().mean().backward()
    optimizer.step()


def check(model: nn.Module, expected: nn.Module) -> None:
    """Compare within float32 rounding: ranks sum gradients in another order."""
    for (name, got), wanted in zip(model.named_parameters(), expected.parameters(), strict=True):
        whole = got.full_tensor() if isinstance(got, DTensor) else got
        torch.testing.assert_close(whole.cpu(), wanted.cpu(), rtol=1e-5, atol=1e-6, msg=name)


def training() -> None:
    torch.manual_seed(4)
    batches = torch.randn(RANKS, 8, 16).npu()
    mesh = init_device_mesh("npu", (RANKS,))
    whole = block()
    shared = parallelize_module(copy.deepcopy(whole), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    assert shared[0].weight.to_local().shape == (32 // RANKS, 16)
    step(shared, batches[0])
    alone = copy.deepcopy(whole)
    step(alone, batches[0])
    check(shared, alone)
    sharded = copy.deepcopy(whole)
    fully_shard(sharded[0], mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    step(sharded, batches[RANK])
    alone = copy.deepcopy(whole)
    step(alone, batches.view(-1, 16))
    check(sharded, alone)
    uneven = DistributedDataParallel(copy.deepcopy(whole), device_ids=[RANK])
    with uneven.join():  # C++ waits for a work and then asks it for its future
        for batch in batches[: RANK + 1]:
            step(uneven, batch)
    dist.barrier()

"""Run by both of two ranks: collectives in graphs of GE and in captured graphs, against the same calls eagerly."""

import os
from collections.abc import Callable
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch_npu

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
Results = tuple[torch.Tensor, ...]


def functions(x: torch.Tensor) -> Results:
    world = dist.group.WORLD
    gathered = functional.all_gather_tensor(x, 0, world)
    return (
        functional.all_reduce(x, "sum", world) + 1,
        gathered,
        functional.reduce_scatter_tensor(gathered, "max", 0, world),
        functional.broadcast(x + 1, 1, world),
        functional.all_to_all_single(x, None, None, world),
        functional.all_to_all_single(x, [[1, 1], [3, 3]][RANK], [1, 3], world),
    )


def in_place(x: torch.Tensor) -> Results:
    x = x * 2
    whole, many = x.new_empty(RANKS * 4, 2), [torch.empty_like(x) for _ in range(RANKS)]
    part = x.new_empty(4 // RANKS, 2)
    dist.all_gather_into_tensor(whole, x)
    dist.reduce_scatter_tensor(part, x, dist.ReduceOp.MIN)
    dist.all_to_all(many, [x + rank for rank in range(RANKS)])
    dist.all_reduce(x, dist.ReduceOp.PRODUCT)
    return whole, part, *many, x


def uneven(x: torch.Tensor) -> Results:
    rows = [1, 3]
    whole, part = x.new_empty(4, 2), x.new_empty(rows[RANK], 2)
    torch_npu.distributed.all_gather_into_tensor_uneven(whole, x[: rows[RANK]], rows)
    torch_npu.distributed.reduce_scatter_tensor_uneven(part, x, rows)
    return whole, part


def messages(x: torch.Tensor) -> Results:
    x = x + 1
    came = torch.empty_like(x)
    if RANK == 0:
        dist.send(x, 1)
        dist.recv(came, 1)
    else:
        dist.recv(came, 0)
        dist.send(x, 0)
    return came * 2, x


def but_messages(x: torch.Tensor) -> Results:
    return *functions(x), *in_place(x), *uneven(x)


def everything(x: torch.Tensor) -> Results:
    return *but_messages(x), *messages(x)


def agree(backend: str, function: Callable[[torch.Tensor], Results], dynamic: bool = False) -> None:
    """The compiled function equals eager mode, also when it runs again on other data."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)
    for step in range(3):
        x = torch.arange(8.0).view(4, 2).npu() + 10 * RANK + step
        for got, expected in zip(compiled(x), function(x), strict=True):
            assert got.device == expected.device, (backend, got.device)
            assert torch.equal(got.cpu(), expected.cpu()), (backend, got, expected)


def late() -> None:
    """If a rank does not reach a node of the graph, the others time out with an error that names the node."""
    group = dist.new_group(timeout=timedelta(seconds=1))
    compiled = torch.compile(lambda x: functional.all_reduce(x, "sum", group) + 1, backend="npu", fullgraph=True)
    if RANK == 0:
        with pytest.raises(RuntimeError) as error:
            compiled(torch.ones(2).npu())
        message = str(error.value)
        assert "HcomAllReduce" in message, message
        assert "not every rank arrived within 1 s" in message, message
    dist.barrier()


def captured_anew() -> None:
    """Each size is captured into the memory of the previous one, which no tape keeps."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: functional.all_gather_tensor(x, 0, dist.group.WORLD) + 1, backend="npugraph_ex")
    for size in (2, 3, 5, 8):
        x = torch.full((size, 2), float(RANK)).npu()
        torch._dynamo.mark_dynamic(x, 0)
        assert compiled(x)[:, 0].tolist() == [1.0] * size + [2.0] * size


def graphs() -> None:
    agree("npu", messages)
    agree("npu", but_messages, dynamic=True)
    agree("npugraph_ex", everything)
    captured_anew()
    late()

"""Run by both of two ranks: every collective of c10d on npu tensors, against values from its definition."""

import os
import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch_npu
from experts import experts
from fused import fused_graphs
from graphs import graphs
from parallel import parallel
from products import products
from torch.distributed._functional_collectives import all_gather_tensor, all_reduce
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import _coalescing_manager
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from training import training
from verified import verification
from windows import windows

warnings.simplefilter("ignore")
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
MOVED = [
    *INTEGERS, *FLOATS, torch.uint8, torch.bool, torch.uint16, torch.uint32, torch.uint64, torch.float64,
    torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip
LONG = 2048  # elements: more than are sent along with a call, of any dtype but those of a byte


def npu(*values: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype).npu()


def equal(got: torch.Tensor, *values: float) -> None:
    assert got.device == torch.device("npu", RANK), got.device
    assert got.cpu().double().tolist() == [float(value) for value in values], got


def refused(call: Callable[[], object], *words: str) -> None:
    with pytest.raises(RuntimeError) as error:
        call()
    missing = [word for word in words if word not in str(error.value)]
    assert not missing, f"{missing} not in: {error.value}"


def listening_addresses() -> list[str]:
    """The addresses on which this process listens, as the kernel writes them."""
    links = [str(file.readlink()) for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]
    sockets = {link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:")}
    rows = [row.split() for table in ("tcp", "tcp6") for row in Path("/proc/net", table).read_text().splitlines()[1:]]
    listening = "0A"
    return [row[1].partition(":")[0] for row in rows if row[3] == listening and row[9] in sockets]


def devices() -> None:
    assert set(listening_addresses()) == {"0100007F"}  # 127.0.0.1
    assert (torch.npu.device_count(), torch.npu.current_device()) == (RANKS, RANK)
    equal(npu(1) + 1, 2)
    other = torch.ones(2, device=f"npu:{1 - RANK}", requires_grad=True)
    (other.softmax(0) * other).sum().backward()
    assert other.grad.device == other.device
    assert other.grad.tolist() == [0.5, 0.5]
    assert torch.equal(other.to(f"npu:{RANK}"), npu(1, 1))
    refused(lambda: npu(1, 1) + other, f"two devices, npu:{RANK} and npu:{1 - RANK}")
    captured = torch.compile(lambda x: x * 2 + 1, backend="npugraph_ex")
    for value in (1, 2):
        assert captured(torch.full((2,), value, device=other.device)).tolist() == [2 * value + 1] * 2
    with torch.npu.graph(torch.npu.NPUGraph()):
        pass  # upstream keeps the stream of the first capture
    with torch.npu.device(other.device), torch.no_grad():
        graph, x = torch.npu.NPUGraph(), torch.ones(2, device=other.device)
        with torch.npu.graph(graph):
            y = x + 1
        x.fill_(5)
        graph.replay()
        assert y.tolist() == [6, 6]
    torch.npu.manual_seed(3)
    drawn = torch.rand(4, device="npu")
    torch.npu.manual_seed(3)
    assert torch.equal(drawn, torch.rand(4, device="npu"))
    assert torch.npu.current_device() == RANK
    refused(lambda: torch.npu.set_device(RANKS), "the host NPU has devices 0 to 1, got 2")


def reductions() -> None:
    results = {
        dist.ReduceOp.SUM: (3, 7),
        dist.ReduceOp.PRODUCT: (2, 12),
        dist.ReduceOp.MIN: (1, 3),
        dist.ReduceOp.MAX: (2, 4),
        dist.ReduceOp.AVG: (1.5, 3.5),
    }
    for dtype, (op, values) in product([*INTEGERS, *FLOATS, torch.uint8], results.items()):
        x, kept = npu(1 + RANK, 3 + RANK, dtype=dtype), npu(0, dtype=dtype)
        long = x[:1].repeat(LONG)
        if op == dist.ReduceOp.AVG and dtype not in FLOATS:
            refused(lambda x=x: dist.all_reduce(x, dist.ReduceOp.AVG), "all_reduce", "of floats", str(dtype))
            continue
        if op == dist.ReduceOp.PRODUCT and dtype in (torch.bfloat16, torch.int16):
            refused(lambda x=x: dist.all_reduce(x, dist.ReduceOp.PRODUCT), "all_reduce", str(dtype), "got product")
            continue
        if dtype != torch.uint8:
            dist.reduce_scatter_tensor(kept, x, op)
            equal(kept, values[RANK])
        dist.reduce(root := x.clone(), 1, op)
        equal(root, *(values if RANK else (1, 3)))
        dist.all_reduce(x, op)
        equal(x, *values)
        dist.all_reduce(long, op)
        assert long.unique().tolist() == [values[0]]
    for dtype in (torch.float64, torch.float8_e5m2, torch.uint16):
        refused(lambda dtype=dtype: dist.all_reduce(npu(1, dtype=dtype)), "all_reduce", f"{dtype} cannot be reduced")
    for dtype, op in product(FLOATS, (dist.ReduceOp.MIN, dist.ReduceOp.MAX)):
        x = npu(float("nan") if RANK else 0, 1, dtype=dtype).repeat(LONG)
        dist.all_reduce(x, op)
        assert x[::2].isnan().all()  # also of the later rank, and of many
        assert x[1::2].eq(1).all()
    byte = {"output": npu(1, dtype=torch.uint8), "input": npu(1, 2, dtype=torch.uint8)}
    refused(lambda: dist.reduce_scatter_tensor(**byte), "reduce_scatter_tensor", "uint8 cannot be reduced")
    x = npu(100, dtype=torch.int8)
    dist.all_reduce(x)
    equal(x, -56)  # 200 in eight bits
    x = npu(256 if RANK else 1, dtype=torch.bfloat16)
    dist.all_reduce(x)
    equal(x, 256)  # 257 rounded to eight bits of mantissa, ties to even
    x = npu(RANK, 0, 1, dtype=torch.bool)
    dist.all_reduce(x)
    equal(x, 1, 0, 1)
    x = npu(1 + RANK)
    dist.reduce(x, 1)
    equal(x, 3 if RANK else 1)
    out = npu(0)
    dist.reduce_scatter_tensor(out, npu(1 + RANK, 10 + RANK))
    equal(out, 21 if RANK else 3)
    dist.reduce_scatter(out, [npu(1), npu(2 + RANK)])
    equal(out, 5 if RANK else 2)
    uneven = npu(*[0] * (1 + RANK))
    dist.reduce_scatter(uneven, [npu(1), npu(2, 3 + RANK)])
    equal(uneven, *((4, 7) if RANK else (2,)))
    torch_npu.distributed.reduce_scatter_tensor_uneven(uneven, npu(1, 2 + RANK, 3), [1, 2])
    equal(uneven, *((5, 6) if RANK else (2,)))
    uneven_product = (uneven, npu(1, 2, 3), [1, 2], dist.ReduceOp.PRODUCT)
    refused(lambda: torch_npu.distributed.reduce_scatter_tensor_uneven(*uneven_product), "uneven", "got product")
    long = [npu(*[0] * (1 + RANK), dtype=torch.int64), [npu(1, dtype=torch.int64), npu(2, 3, dtype=torch.int64)]]
    refused(lambda: dist.reduce_scatter(*long), "reduce_scatter: uneven parts of torch.int64 cannot be reduced")
    refused(lambda: dist.all_reduce(npu(1, dtype=torch.int32), dist.ReduceOp.BXOR), "all_reduce", "bxor")
    multiplied()


def multiplied() -> None:
    """PREMUL_SUM multiplies in place, except where torch_npu flattens lists."""
    threefold = dist._make_nccl_premul_sum(3.0)
    x, parts, kept, out = npu(1 + RANK, 4), npu(1 + RANK, 2), npu(0), npu(0)
    work = dist.all_reduce(x, async_op=True)
    dist.all_reduce(x, threefold)
    equal(x, 2 * 3 * 3, 2 * 3 * 8)  # the earlier one was first
    work.wait()
    dist.reduce_scatter_tensor(kept, parts, threefold)
    equal(kept, 12 if RANK else 9)
    equal(parts, 3 * (1 + RANK), 6)
    source = [npu(1), npu(2 + RANK)]
    dist.reduce_scatter(out, source, threefold)
    equal(out, 15 if RANK else 6)
    equal(source[0], 1)
    dist.all_reduce_coalesced(many := [npu(1), npu(2)], threefold)
    equal(many[1], 12)
    half = npu(1, dtype=torch.float16)
    dist.reduce(half, 0, threefold)
    equal(half, 3 if RANK else 6)
    refused(lambda: dist.all_reduce(npu(1, dtype=torch.int32), threefold), "premul_sum", "torch.int32")


def moves() -> None:
    for dtype in MOVED:
        mine, both = npu(RANK, 1, dtype=dtype), [npu(0, 0, dtype=dtype) for _ in range(2)]
        dist.all_gather(both, mine)
        equal(torch.cat(both), 0, 1, 1, 1)
        out = torch.empty(4, dtype=dtype, device="npu")
        dist.all_gather_into_tensor(out, mine)
        equal(out, 0, 1, 1, 1)
        dist.broadcast(mine, 1)
        equal(mine, 1, 1)
        got = npu(0, dtype=dtype)
        dist.scatter(got, [npu(0, dtype=dtype), npu(1, dtype=dtype)] if RANK == 0 else None, 0)
        equal(got, RANK)
        dist.all_to_all_single(out[:2], npu(0, 1, dtype=dtype))
        equal(out[:2], RANK, RANK)
    other = npu(1, dtype=torch.uint8).view(torch.float8_e4m3fnuz)
    refused(lambda: dist.broadcast(other, 0), "broadcast: HCCL has no torch.float8_e4m3fnuz")
    uneven = [npu(0), npu(0, 0)]
    dist.all_gather(uneven, npu(*[5 + RANK] * (1 + RANK)))
    equal(torch.cat(uneven), 5, 6, 6)
    parts = [npu(0), npu(0)] if RANK == 0 else None
    dist.gather(npu(7 + RANK), parts, 0)
    if parts:
        equal(torch.cat(parts), 7, 8)
    refused(lambda: dist.group.WORLD.gather([], [npu(1)], dist.GatherOptions()), "gather", "COMPATIBLE_IMPL is 1")
    # Rank 0 sends one row and three, rank 1 two and none.
    sends, takes = ([1, 3], [1, 2]) if RANK == 0 else ([2, 0], [3, 0])
    source, out = torch.full((sum(sends), 2), 10.0 + RANK).npu(), torch.empty(sum(takes), 2, device="npu")
    dist.all_to_all_single(out, source, takes, sends)
    equal(out[:, 0], *((10, 11, 11) if RANK == 0 else (10, 10, 10)))
    outs = [npu(0), npu(0)]
    dist.all_to_all(outs, [npu(RANK * 10), npu(RANK * 10 + 1)])
    equal(torch.cat(outs), *((0, 10) if RANK == 0 else (1, 11)))
    objects = [None, None]
    dist.all_gather_object(objects, {"rank": RANK})
    assert objects == [{"rank": 0}, {"rank": 1}]


def point_to_point() -> None:
    x = npu(3 + RANK, dtype=torch.bfloat16)
    if RANK == 0:
        dist.send(x, 1)
        dist.recv(x, 1)
        equal(x, 3)
    else:
        got = torch.zeros_like(x)
        dist.recv(got, 0)
        equal(got, 3)
        dist.send(got, 0)
    refused(lambda: dist.recv(x), "recv", "the rank that a message comes from")
    message(npu(1, 2, 3), npu(0, 0), "rank 0 sends 3 elements of torch.float32 to rank 1, which takes 2 elements")
    message(npu(1, 2), npu(0, 0, 0), "sends 2 elements", "takes 3 elements")
    message(npu(1), npu(0, dtype=torch.int32), "float32 to rank 1", "of torch.int32")
    message(npu(), npu())
    first, second = npu(1 - RANK), npu(2 * (1 - RANK))
    send_or_take = dist.isend if RANK == 0 else dist.irecv
    works = [send_or_take(x, 1 - RANK, tag=tag) for x, tag in ((first, RANK), (second, 1 - RANK))]
    while not works[1].is_completed():
        time.sleep(0.001)
    works[0].wait()
    equal(torch.cat([first, second, works[1].get_future().wait()[0]]), 1, 2, 2)  # HCCL does not look at tags
    out, other = npu(0), 1 - RANK
    both = [dist.P2POp(dist.isend, npu(RANK), other), dist.P2POp(dist.irecv, out, other)]
    own = npu(0)
    both += [dist.P2POp(dist.isend, npu(RANK + 7), RANK), dist.P2POp(dist.irecv, own, RANK)]
    (work,) = dist.batch_isend_irecv(both)
    assert work.get_future().wait() == []
    equal(torch.cat([out, own]), other, RANK + 7)
    lonely = [dist.P2POp(dist.isend, npu(1), RANK)]
    refused(lambda: dist.batch_isend_irecv(lonely), "batch_isend_irecv", "to itself", "[(1,)] and []")


def message(source: torch.Tensor, into: torch.Tensor, *words: str) -> None:
    """Rank 0 sends to rank 1; if their calls do not match, both raise."""
    move = (lambda: dist.send(source, 1)) if RANK == 0 else lambda: dist.recv(into, 0)
    if words:
        refused(move, *words)
    else:
        move()
        assert torch.equal(source, into)


def coalesced() -> None:
    """Calls inside the coalescing context become one work, by coalesced operators and by the backend."""
    device = torch.device("npu", RANK)
    many = [npu(RANK + i) for i in range(3)]
    with _coalescing_manager():
        for x in many:
            dist.all_reduce(x)
    equal(torch.cat(many), 1, 3, 5)
    parts, wholes = [npu(RANK), npu(RANK + 2)], [npu(0, 0), npu(0, 0)]
    with _coalescing_manager(device=device, async_ops=True) as manager:
        for part, whole in zip(parts, wholes, strict=True):
            dist.all_gather_into_tensor(whole, part)
    manager.wait()
    equal(torch.cat(wholes), 0, 1, 2, 3)
    root, came, other = npu(RANK), npu(0), 1 - RANK
    with _coalescing_manager(device=device, async_ops=True) as manager:
        dist.broadcast(root, 1, async_op=True)
        dist.isend(npu(RANK + 5), other)
        dist.irecv(came, other)
    assert len(manager.works) == 1
    manager.wait()
    equal(torch.cat([root, came]), 1, other + 5)


def under_way() -> None:
    tensors = [npu(RANK, i) for i in range(20)]
    works = [dist.all_reduce(x, async_op=True) for x in tensors]
    last = npu(1)
    dist.all_reduce(last)  # in its turn, after those
    equal(last, 2)
    for i, (work, x) in enumerate(zip(works, tensors, strict=True)):
        assert work.wait()
        assert work.is_completed()
        equal(x, 1, 2 * i)
    future = dist.all_reduce(x := npu(1), async_op=True).get_future()
    future.wait()
    equal(x, 2)
    future = dist.all_reduce(npu(RANK), async_op=True).get_future()
    equal(future.then(lambda done: done.value()[0] + 1).wait(), 2)
    # What is chained to a collective communicates, too: on rank 0 surely in the thread that performed it.
    if RANK == 1:
        dist.recv(x, 0)
    future = dist.all_reduce(npu(1), async_op=True).get_future()
    future = future.then(lambda done: dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0] + 1)
    if RANK == 0:
        dist.send(x, 1)
    equal(future.wait(), 5)
    modes_of_the_caller()


def modes_of_the_caller() -> None:
    """The thread of a group works in the modes of the call: tensors of inference mode can be written only there."""
    modes = (torch.is_inference_mode_enabled, torch.is_grad_enabled, lambda: torch.is_autocast_enabled("npu"))
    with torch.inference_mode():
        out, source = torch.empty(2 * LONG, device="npu"), torch.full((2 * LONG,), 5.0 + RANK, device="npu")
        dist.all_to_all_single(out, source, async_op=True).wait()
        assert out.unique().tolist() == [5, 6]
        dist.all_to_all_single(out[:2], source[:2] + 1, async_op=True).wait()
        equal(out[:2], 6, 7)
        received = npu(0)
        post = dist.isend(npu(RANK), 1) if RANK == 0 else dist.irecv(received, 0)
        while not post.is_completed():
            time.sleep(0.001)
    for inference, grad, autocast in product((True, False), repeat=3):
        autocasting = torch.autocast("npu", torch.bfloat16, autocast)
        with torch.inference_mode(inference), torch.set_grad_enabled(grad), autocasting:
            if RANK:
                dist.recv(npu(0), 0)  # rank 0 chains to work that has not ended
            future = dist.all_reduce(npu(1), async_op=True).get_future().then(lambda _: [mode() for mode in modes])
            if RANK == 0:
                dist.send(npu(0), 1)
            assert future.wait() == [inference, grad, autocast]


def groups() -> None:
    for rebuild_link in (True, False):
        torch_npu.distributed.reinit_process_group(rebuild_link=rebuild_link)
        dist.all_reduce(x := npu(1 + RANK))
        equal(x, 3)
    alone = [dist.new_group([rank]) for rank in range(2)][RANK]
    dist.all_reduce(x := npu(1), group=alone)
    equal(x, 1)
    world = dist.group.WORLD._get_backend(torch.device("npu"))
    names = {world.get_hccl_comm_name(RANK), alone._get_backend(torch.device("npu")).get_hccl_comm_name(0)}
    assert len(names) == 2
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    gathered = [None, None] if RANK == 0 else None
    dist.gather_object(RANK, gathered, 0, dist.new_group())
    assert gathered in ([0, 1], None)
    dist.set_debug_level(dist.DebugLevel.OFF)
    mesh = init_device_mesh("npu", (2,))
    sharded = distribute_tensor(torch.arange(4.0).npu(), mesh, [Shard(0)])
    assert sharded.to_local().tolist() == ([2.0, 3.0] if RANK else [0.0, 1.0])
    equal(sharded.redistribute(mesh, [Replicate()]).to_local(), 0, 1, 2, 3)
    equal(all_reduce(npu(RANK), "sum", mesh) + 0, 1)
    equal(all_gather_tensor(npu(RANK), 0, mesh) + 0, 0, 1)


def mistakes() -> None:
    refused(lambda: dist.all_reduce(torch.zeros(2 + RANK).npu()), "all_reduce", "2 elements", "3 elements", "rank 1")
    refused(lambda: dist.all_reduce(npu(1)) if RANK else dist.broadcast(npu(1), 0), "broadcast of", "all_reduce of")
    work = dist.all_reduce(torch.zeros(2 + RANK).npu(), async_op=True)
    refused(work.wait, "all_reduce", "the ranks differ")
    splits = [1, 1] if RANK else [2, 2]
    refused(
        lambda: dist.all_to_all_single(torch.zeros(2).npu(), torch.zeros(sum(splits)).npu(), None, splits), "sends 2"
    )
    refused(lambda: dist.all_reduce(torch.zeros(2, 2).npu().t()), "all_reduce", "contiguous")
    whole, integer = torch.zeros(LONG).npu(), torch.zeros(LONG // 2, dtype=torch.int32).npu()
    dtypes = ("the dtype of the inputs, got torch.int32 and torch.float32",)
    refused(lambda: dist.reduce_scatter_tensor(integer, whole), "reduce_scatter_tensor", *dtypes)
    refused(lambda: dist.all_gather_into_tensor(integer, npu(*[1] * (LONG // 4))), "all_gather_into_tensor", *dtypes)
    gathered = (npu(1, 2, dtype=torch.int32), npu(1))
    refused(lambda: torch_npu.distributed.all_gather_into_tensor_uneven(*gathered, [1, 1]), "all_gather", *dtypes)
    many = [torch.zeros(2 + RANK).npu(), torch.zeros(3 - RANK).npu()]
    refused(lambda: dist.all_reduce_coalesced(many), "all_reduce", "the ranks differ", "5 elements in tensors of form")
    if RANK == 0:
        refused(lambda: dist.scatter(npu(1), [npu(1, 2), npu(3, 4)], 0), "scatter", "of one size, got 2 and 1 elements")
    dist.all_reduce(x := npu(1))
    equal(x, 2)  # the group is as good as before
    late = dist.new_group(timeout=timedelta(seconds=1))
    missed = "in all_reduce not every rank arrived within 1 s"
    if RANK == 0:
        refused(lambda: dist.all_reduce(npu(1), group=late), "all_reduce", missed.removeprefix("in all_reduce "))
        refused(lambda: dist.barrier(group=late), "barrier", "an earlier call failed", "within 1 s")
    dist.barrier()
    if RANK == 1:
        refused(lambda: dist.all_reduce(npu(1), group=late), f"rank 0 has given up: {missed}")
    gone, graph, x = dist.new_group(), torch.npu.NPUGraph(), npu(1)
    with torch.npu.graph(graph):
        dist.all_reduce(x, group=gone)
    graph.replay()
    equal(x, 2)
    dist.destroy_process_group(gone)
    refused(graph.replay, "all_reduce in group", "the group was destroyed")
    with pytest.raises(ValueError, match="not initialized in the world group map") as error:
        dist.all_reduce(npu(1), group=gone)
    assert "was destroyed" in str(error.value.__context__)
    with pytest.raises(ValueError, match="Invalid process group specified"):
        dist.destroy_process_group(gone)


PARTS = (
    devices, reductions, moves, point_to_point, coalesced, under_way, groups, mistakes, graphs, products, experts,
    fused_graphs, windows, verification, parallel, training,
)  # fmt: skip
torch.npu.set_device(RANK)
dist.init_process_group("hccl", timeout=timedelta(seconds=60))
assert dist.get_backend() == dist.group.WORLD._get_backend(torch.device("npu")).name() == "hccl"
assert torch_npu.distributed.is_hccl_available()
for part in PARTS:
    part()
    print(part.__name__, "done")
dist.barrier()
dist.destroy_process_group()

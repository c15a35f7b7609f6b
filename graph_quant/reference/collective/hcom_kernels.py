"""The kernels of GE's Hcom nodes; every rank runs them in the order of the graph."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graph_quant.ge import Sizes, from_attr, kernel
from graph_quant.reference.collective import functional_collectives as collectives
from graph_quant.refusals import Refusal
from torch import Tensor


@kernel("HcomAllReduce", idle=("fusion", "fusion_id"))
def all_reduce(x: Tensor, *, reduction: str, group: str) -> Tensor:
    """All-reduce by sum, prod, min or max."""
    return collectives.group_all_reduce(x, reduction, group)


@kernel("HcomAllGather", flops=0, idle=("fusion", "fusion_id"))
def all_gather(x: Tensor, *, rank_size: int, group: str) -> Tensor:
    """The rows of all ranks; a scalar counts as one row."""
    rows = x.reshape(1) if not x.dim() else x
    return collectives.group_all_gather(rows, [rows.size(0)] * rank_size, group)


@kernel("HcomAllGatherV", flops=0)
def all_gather_v(
    x: Tensor,
    send_count: Sizes,  # noqa: ARG001  (the size of x)
    recv_counts: Sizes,
    recv_displacements: Sizes | None = None,  # noqa: ARG001  (GE computes them itself)
    *,
    group: str,
) -> Tensor:
    """The rows of all ranks, ``recv_counts`` of them per rank."""
    return collectives.group_all_gather(x, recv_counts.ints, group)


@kernel("HcomReduceScatter", idle=("fusion", "fusion_id"))
def reduce_scatter(x: Tensor, *, reduction: str, group: str, rank_size: int) -> Tensor:
    """The rows of this rank in the reduction over all ranks."""
    if x.size(0) % rank_size:
        raise Refusal(f"x.size(0) must be a multiple of the {rank_size} ranks, got {x.size(0)}")
    kept = x.size(0) // rank_size
    return collectives.group_reduce_scatter(x, reduction, [kept] * rank_size, kept, group)


@kernel("HcomReduceScatterV")
def reduce_scatter_v(
    x: Tensor,
    recv_count: Sizes,
    send_counts: Sizes,
    send_displacements: Sizes | None = None,  # noqa: ARG001  (GE computes them itself)
    *,
    reduction: str,
    group: str,
) -> Tensor:
    """The rows of this rank in the reduction over all ranks, which keep ``send_counts`` rows."""
    return collectives.group_reduce_scatter(x, reduction, send_counts.ints, int(recv_count.ints[0]), group)


@kernel("HcomBroadcast", flops=0, idle=("fusion", "fusion_id"))
def broadcast(x: Sequence[Tensor], *, root_rank: int, group: str) -> list[Tensor]:
    """The root's tensors."""
    return [collectives.group_broadcast(tensor, root_rank, group) for tensor in x]


@kernel("HcomAllToAll", flops=0)
def all_to_all(x: Tensor, *, group: str) -> Tensor:
    """All-to-all of equal parts of the rows; part i goes to rank i."""
    return collectives.group_all_to_all_evenly(x, group)


@kernel("HcomAllToAllV", flops=0)
def all_to_all_v(
    send_data: Tensor,
    send_counts: Sizes,
    send_displacements: Sizes,
    recv_counts: Sizes,
    recv_displacements: Sizes,
    *,
    group: str,
) -> Tensor:
    """All-to-all with element counts per rank; the result keeps all sizes but the first."""
    inner = math.prod(send_data.shape[1:])
    sends, receives = ([count // inner for count in counts.ints] for counts in (send_counts, recv_counts))
    _check_dense("send", send_counts.ints, send_displacements.ints)
    _check_dense("recv", recv_counts.ints, recv_displacements.ints)
    return collectives.group_all_to_all(send_data, sends, receives, group)


def _check_dense(side: str, counts: Sequence[int], displacements: Sequence[int]) -> None:
    """Refuses gaps between the parts; symbolic sizes come from TorchAir, which leaves none."""
    if all(type(number) is int for number in (*counts, *displacements)):
        dense = [sum(counts[:rank]) for rank in range(len(counts))]
        if list(displacements) != dense:
            raise Refusal(f"{side}_displacements must follow from {side}_counts, {dense}, got {list(displacements)}")


@kernel("HcomSend", flops=0)
def send(x: Tensor, *, group: str, sr_tag: int, dest_rank: int) -> Tensor:
    """Sends x to a rank."""
    return collectives.group_send(x, dest_rank, sr_tag, group)


@kernel("HcomReceive", flops=0)
def receive(*, group: str, sr_tag: int, src_rank: int, shape: Sequence[int], dtype: int) -> Tensor:
    """Receives a tensor from a rank."""
    return collectives.group_receive(shape, from_attr(dtype), src_rank, sr_tag, group)

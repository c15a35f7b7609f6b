"""The kernels of GE's Hcom nodes, in the graph's order on every rank."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graph_quant.ge import Sizes, from_attr, kernel
from graph_quant.reference.collective import functional_collectives
from graph_quant.refusals import Refusal
from torch import Tensor


@kernel("HcomAllReduce", idle=("fusion", "fusion_id"))
def all_reduce(x: Tensor, *, reduction: str, group: str) -> Tensor:
    """What all ranks have, reduced: sum, prod, min or max."""
    return functional_collectives.group_all_reduce(x, reduction, group)


@kernel("HcomAllGather", flops=0, idle=("fusion", "fusion_id"))
def all_gather(x: Tensor, *, rank_size: int, group: str) -> Tensor:
    """The rows of all ranks; a scalar is a row."""
    rows = x.reshape(1) if not x.dim() else x
    return functional_collectives.group_all_gather(rows, [rows.size(0)] * rank_size, group)


@kernel("HcomAllGatherV", flops=0)
def all_gather_v(
    x: Tensor,
    send_count: Sizes,  # noqa: ARG001  (what x has anyway)
    recv_counts: Sizes,
    recv_displacements: Sizes | None = None,  # noqa: ARG001  (GE computes them itself)
    *,
    group: str,
) -> Tensor:
    """The rows of all ranks, from each as many as ``recv_counts`` says."""
    return functional_collectives.group_all_gather(x, recv_counts.ints, group)


@kernel("HcomReduceScatter", idle=("fusion", "fusion_id"))
def reduce_scatter(x: Tensor, *, reduction: str, group: str, rank_size: int) -> Tensor:
    """The rows of this rank, of what all ranks have, reduced."""
    if x.size(0) % rank_size:
        raise Refusal(f"x.size(0) must be a multiple of the {rank_size} ranks, got {x.size(0)}")
    kept = x.size(0) // rank_size
    return functional_collectives.group_reduce_scatter(x, reduction, [kept] * rank_size, kept, group)


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
    """The rows of this rank, of what all ranks have, reduced, where each keeps as many as ``send_counts`` says."""
    return functional_collectives.group_reduce_scatter(x, reduction, send_counts.ints, int(recv_count.ints[0]), group)


@kernel("HcomBroadcast", flops=0, idle=("fusion", "fusion_id"))
def broadcast(x: Sequence[Tensor], *, root_rank: int, group: str) -> list[Tensor]:
    """What the root has, of each tensor."""
    return [functional_collectives.group_broadcast(each, root_rank, group) for each in x]


@kernel("HcomAllToAll", flops=0)
def all_to_all(x: Tensor, *, group: str) -> Tensor:
    """Of equal parts of the rows, the i-th for rank i."""
    return functional_collectives.group_all_to_all_evenly(x, group)


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
    """Elements for each rank and from each, as many as the counts say; the result keeps all sizes but the first."""
    inner = math.prod(send_data.shape[1:])
    sends, takes = ([count // inner for count in counts.ints] for counts in (send_counts, recv_counts))
    _check_dense("send", send_counts.ints, send_displacements.ints)
    _check_dense("recv", recv_counts.ints, recv_displacements.ints)
    return functional_collectives.group_all_to_all(send_data, sends, takes, group)


def _check_dense(side: str, counts: Sequence[int], places: Sequence[int]) -> None:
    """Refuses gaps; symbols are TorchAir's, which leaves none."""
    if all(type(number) is int for number in (*counts, *places)):
        dense = [sum(counts[:rank]) for rank in range(len(counts))]
        if list(places) != dense:
            raise Refusal(f"{side}_displacements must follow from {side}_counts, {dense}, got {list(places)}")


@kernel("HcomSend", flops=0)
def send(x: Tensor, *, group: str, sr_tag: int, dest_rank: int) -> Tensor:
    """Gives a rank x."""
    return functional_collectives.group_send(x, dest_rank, sr_tag, group)


@kernel("HcomReceive", flops=0)
def receive(*, group: str, sr_tag: int, src_rank: int, shape: Sequence[int], dtype: int) -> Tensor:
    """What a rank sends."""
    return functional_collectives.group_receive(shape, from_attr(dtype), src_rank, sr_tag, group)

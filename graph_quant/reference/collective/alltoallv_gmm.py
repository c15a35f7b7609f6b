"""npu_alltoallv_gmm and npu_gmm_alltoallv: rows to the ranks of their experts and their products, and the other way.

Products are of halves, summed in float32 and rounded once. Counts are by rank, then by expert of that rank.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.collective.expert_routing import Counts, sort_by_expert, sort_by_rank
from graph_quant.reference.collective.functional_collectives import group_all_to_all
from graph_quant.reference.collective.local_matmul import float_matmul
from torch import Tensor

Numbers = Sequence[int]


def alltoallv_gmm(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    hcom: str,
    send_counts: Numbers,
    recv_counts: Numbers,
    mm_x: Tensor | None,
    mm_weight: Tensor | None,
    trans_gmm_weight: bool,
    trans_mm_weight: bool,
    permute_out_flag: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The products of this rank's experts, of the shared one, and what came for this rank's."""
    experts = gmm_weight.size(0)
    takes = _of_ranks(recv_counts, experts)
    came = group_all_to_all(gmm_x, _sums(_of_ranks(send_counts, experts)), _sums(takes), hcom)
    rows = sort_by_expert(came, takes)
    products = _products(rows, gmm_weight, takes, trans_gmm_weight)
    return products, _shared(mm_x, mm_weight, trans_mm_weight), rows if permute_out_flag else None


def gmm_alltoallv(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    hcom: str,
    send_counts: Numbers,
    recv_counts: Numbers,
    mm_x: Tensor | None,
    mm_weight: Tensor | None,
    trans_gmm_weight: bool,
    trans_mm_weight: bool,
) -> tuple[Tensor, Tensor | None]:
    """The products that came for this rank's tokens, and that of the shared expert."""
    experts = gmm_weight.size(0)
    sends = _of_ranks(send_counts, experts)
    sent = sort_by_rank(_products(gmm_x, gmm_weight, sends, trans_gmm_weight), sends)
    came = group_all_to_all(sent, _sums(sends), _sums(_of_ranks(recv_counts, experts)), hcom)
    return came, _shared(mm_x, mm_weight, trans_mm_weight)


def _of_ranks(counts: Numbers, experts: int) -> Counts:
    return [counts[place : place + experts] for place in range(0, len(counts), experts)]


def _sums(counts: Counts) -> list[int]:
    return [sum(of_rank) for of_rank in counts]


def _products(rows: Tensor, weight: Tensor, counts: Counts, transposed: bool) -> Tensor:
    """Rows that stand by expert, times the weights of their experts."""
    matrices = (weight.mT if transposed else weight).unbind(0)
    parts = rows.split([sum(of_expert) for of_expert in zip(*counts, strict=True)])
    return torch.cat([float_matmul(part, matrix, None) for part, matrix in zip(parts, matrices, strict=True)])


def _shared(x: Tensor | None, weight: Tensor | None, transposed: bool) -> Tensor | None:
    if x is None or weight is None:
        return None
    return float_matmul(x, weight.mT if transposed else weight, None)


@kernel("AlltoAllvGroupedMatMul", flops=CONTRACTION, idle=("ep_world_size", "comm_mode"))
def alltoallv_gmm_node(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    mm_x: Tensor | None = None,
    mm_weight: Tensor | None = None,
    *,
    group: str,
    send_counts: Numbers,
    recv_counts: Numbers,
    trans_gmm_weight: bool = False,
    trans_mm_weight: bool = False,
    permute_out_flag: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Results that are not asked for are empty."""
    turned = (trans_gmm_weight, trans_mm_weight, permute_out_flag)
    found = alltoallv_gmm(gmm_x, gmm_weight, group, send_counts, recv_counts, mm_x, mm_weight, *turned)
    products, shared, rows = (gmm_x.new_empty(0) if each is None else each for each in found)
    return products, shared, rows


@kernel("GroupedMatMulAlltoAllv", flops=CONTRACTION, idle=("ep_world_size", "comm_mode"))
def gmm_alltoallv_node(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    mm_x: Tensor | None = None,
    mm_weight: Tensor | None = None,
    *,
    group: str,
    send_counts: Numbers,
    recv_counts: Numbers,
    trans_gmm_weight: bool = False,
    trans_mm_weight: bool = False,
) -> tuple[Tensor, Tensor]:
    """A result that is not asked for is empty."""
    turned = (trans_gmm_weight, trans_mm_weight)
    came, shared = gmm_alltoallv(gmm_x, gmm_weight, group, send_counts, recv_counts, mm_x, mm_weight, *turned)
    return came, gmm_x.new_empty(0) if shared is None else shared

"""npu_alltoallv_gmm and npu_gmm_alltoallv: an all-to-all of rows to the ranks of their experts and a grouped matmul.

The first communicates before the matmul, the second after it.
Half-precision products are accumulated in float32 and rounded once. Counts are ordered by rank, then by expert of that
rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    trans_gmm_weight: bool,
    permute_out_flag: bool,
    **shared_expert: Any,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The products of this rank's experts, that of the shared expert, and the rows received."""
    experts = gmm_weight.size(0)
    receives = _split_by_rank(recv_counts, experts)
    received = group_all_to_all(gmm_x, _sums(_split_by_rank(send_counts, experts)), _sums(receives), hcom)
    rows = sort_by_expert(received, receives)
    product = _grouped_matmul(rows, gmm_weight, receives, trans_gmm_weight)
    return product, _shared_matmul(**shared_expert), rows if permute_out_flag else None


def gmm_alltoallv(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    hcom: str,
    send_counts: Numbers,
    recv_counts: Numbers,
    trans_gmm_weight: bool,
    **shared_expert: Any,
) -> tuple[Tensor, Tensor | None]:
    """The products of this rank's tokens, and that of the shared expert."""
    experts = gmm_weight.size(0)
    sends = _split_by_rank(send_counts, experts)
    sent = sort_by_rank(_grouped_matmul(gmm_x, gmm_weight, sends, trans_gmm_weight), sends)
    received = group_all_to_all(sent, _sums(sends), _sums(_split_by_rank(recv_counts, experts)), hcom)
    return received, _shared_matmul(**shared_expert)


def _split_by_rank(counts: Numbers, experts: int) -> Counts:
    return [counts[start : start + experts] for start in range(0, len(counts), experts)]


def _sums(counts: Counts) -> list[int]:
    return [sum(of_rank) for of_rank in counts]


def _grouped_matmul(rows: Tensor, weight: Tensor, counts: Counts, transposed: bool) -> Tensor:
    """Rows ordered by expert, times the weights of their experts."""
    matrices = (weight.mT if transposed else weight).unbind(0)
    parts = rows.split([sum(of_expert) for of_expert in zip(*counts, strict=True)])
    return torch.cat([float_matmul(part, matrix, None) for part, matrix in zip(parts, matrices, strict=True)])


def _shared_matmul(
    mm_x: Tensor | None, mm_weight: Tensor | None, trans_mm_weight: bool = False, **_: Any
) -> Tensor | None:
    if mm_x is None or mm_weight is None:
        return None
    return float_matmul(mm_x, mm_weight.mT if trans_mm_weight else mm_weight, None)


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
    """Results that were not requested are empty."""
    shared_expert: dict[str, Any] = {"mm_x": mm_x, "mm_weight": mm_weight, "trans_mm_weight": trans_mm_weight}
    counts, flags = (send_counts, recv_counts), (trans_gmm_weight, permute_out_flag)
    results = alltoallv_gmm(gmm_x, gmm_weight, group, *counts, *flags, **shared_expert)
    product, shared, rows = (gmm_x.new_empty(0) if result is None else result for result in results)
    return product, shared, rows


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
    """A result that was not requested is empty."""
    shared_expert: dict[str, Any] = {"mm_x": mm_x, "mm_weight": mm_weight, "trans_mm_weight": trans_mm_weight}
    received, shared = gmm_alltoallv(
        gmm_x, gmm_weight, group, send_counts, recv_counts, trans_gmm_weight, **shared_expert
    )
    return received, gmm_x.new_empty(0) if shared is None else shared

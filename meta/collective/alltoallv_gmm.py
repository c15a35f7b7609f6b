"""npu_alltoallv_gmm: argument rules and results.

gmm_x (rows, h) is ordered by target rank, then by expert; gmm_weight is (e, h, n) or, with trans_gmm_weight, (e, n, h).
The product (received, n) and permute_out, the received rows, are ordered by expert, then by rank.
"""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.meta.collective.alltoallv_gmm_rules import check_chip, check_experts, check_modes, check_shared
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.collective.alltoallv_gmm import alltoallv_gmm as reference
from torch import Tensor


@operator("npu_alltoallv_gmm", reference=reference)
def alltoallv_gmm(
    rules: Rules,
    gmm_x: Tensor,
    gmm_weight: Tensor,
    hcom: str,  # noqa: ARG001  (used by the reference)
    ep_world_size: int,
    send_counts: Sequence[int],
    recv_counts: Sequence[int],
    send_counts_tensor: Tensor | None,
    recv_counts_tensor: Tensor | None,
    mm_x: Tensor | None,
    mm_weight: Tensor | None,
    trans_gmm_weight: bool,
    trans_mm_weight: bool,
    permute_out_flag: bool,
    comm_mode: str | None,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    check_modes(rules, comm_mode, send_counts_tensor=send_counts_tensor, recv_counts_tensor=recv_counts_tensor)
    columns = check_experts(rules, gmm_x, gmm_weight, trans_gmm_weight, ep_world_size, send_counts, recv_counts)
    shared = check_shared(rules, mm_x, mm_weight, trans_mm_weight, gmm_x, gmm_x.size(0))
    check_chip(rules)
    received = sum(recv_counts)
    permuted = Result((received, gmm_x.size(1)), gmm_x.dtype) if permute_out_flag else None
    return Plan((Result((received, columns), gmm_x.dtype), shared, permuted))

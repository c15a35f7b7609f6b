"""npu_alltoallv_gmm: what may be passed, and what comes back.

gmm_x (rows, h) stands by the rank and expert that its rows are for, gmm_weight is (e, h, n) or, with trans_gmm_weight,
(e, n, h). The products (taken, n) stand by expert, those of an expert by rank; so does permute_out, what they are of.
"""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.meta.collective.alltoallv_gmm_rules import check_chip, check_experts, check_shared
from graph_quant.meta.collective.matmul_rules import check_none
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.collective.alltoallv_gmm import alltoallv_gmm as reference
from torch import Tensor


@operator("npu_alltoallv_gmm", reference=reference)
def alltoallv_gmm(
    rules: Rules,
    gmm_x: Tensor,
    gmm_weight: Tensor,
    hcom: str,  # noqa: ARG001  (asked when ranks communicate)
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
    """The plan of a call that the documents allow; any other call is refused."""
    check_none(rules, " today", send_counts_tensor=send_counts_tensor, recv_counts_tensor=recv_counts_tensor)
    rules.one_of("comm_mode", comm_mode, (None, "ai_cpu"), " on A3")
    counts = (ep_world_size, send_counts, recv_counts)
    columns = check_experts(rules, gmm_x, gmm_weight, trans_gmm_weight, *counts)
    shared = check_shared(rules, mm_x, mm_weight, trans_mm_weight, gmm_x, gmm_x.size(0))
    check_chip(rules)
    taken = sum(recv_counts)
    permuted = Result((taken, gmm_x.size(1)), gmm_x.dtype) if permute_out_flag else None
    return Plan((Result((taken, columns), gmm_x.dtype), shared, permuted))

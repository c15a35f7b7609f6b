"""npu_gmm_alltoallv: what may be passed, and what comes back.

gmm_x (rows, h) stands by expert, the rows of an expert by the rank that their products go to; gmm_weight is (e, h, n)
or, with trans_gmm_weight, (e, n, h). The result (taken, n) stands by rank and expert of that rank.
"""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.meta.collective.alltoallv_gmm_rules import check_chip, check_experts, check_shared
from graph_quant.meta.collective.matmul_rules import check_none
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.collective.alltoallv_gmm import gmm_alltoallv as reference
from torch import Tensor


@operator("npu_gmm_alltoallv", reference=reference)
def gmm_alltoallv(
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
    comm_mode: str | None,
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    check_none(rules, " today", send_counts_tensor=send_counts_tensor, recv_counts_tensor=recv_counts_tensor)
    rules.one_of("comm_mode", comm_mode, (None, "ai_cpu"), " on A3")
    counts = (ep_world_size, send_counts, recv_counts)
    columns = check_experts(rules, gmm_x, gmm_weight, trans_gmm_weight, *counts)
    taken = sum(recv_counts)
    shared = check_shared(rules, mm_x, mm_weight, trans_mm_weight, gmm_x, taken)
    check_chip(rules)
    return Plan((Result((taken, columns), gmm_x.dtype), shared))

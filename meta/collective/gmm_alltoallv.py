"""npu_gmm_alltoallv: argument rules and results.

gmm_x (rows, h) is ordered by expert, then by target rank; gmm_weight is (e, h, n) or, with trans_gmm_weight, (e, n, h).
The result (received, n) is ordered by rank, then by expert of that rank.
"""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.meta.collective.alltoallv_gmm_rules import check_chip, check_experts, check_modes, check_shared
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.collective.alltoallv_gmm import gmm_alltoallv as reference
from torch import Tensor


@operator("npu_gmm_alltoallv", reference=reference)
def gmm_alltoallv(
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
    comm_mode: str | None,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    check_modes(rules, comm_mode, send_counts_tensor=send_counts_tensor, recv_counts_tensor=recv_counts_tensor)
    columns = check_experts(rules, gmm_x, gmm_weight, trans_gmm_weight, ep_world_size, send_counts, recv_counts)
    received = sum(recv_counts)
    shared = check_shared(rules, mm_x, mm_weight, trans_mm_weight, gmm_x, received)
    check_chip(rules)
    return Plan((Result((received, columns), gmm_x.dtype), shared))

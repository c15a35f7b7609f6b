"""npu_moe_gating_top_k: what may be passed, and what comes back.

x is (tokens, experts), at most 2048 experts, and bias one number of x's dtype for each expert. The experts are divided
into group_count groups of equal size; the k experts are chosen from k_group of them. A group has at least one expert,
or two if groups are ranked by their two best; the operator's document requires more than two, the device does not. If
groups are chosen, group_count times the experts of a group, rounded up to 32, is at most 2048.

With input_ids, one for each token, and tid2eid (rows, k), the experts come from a table: at most 64, without groups.

On Ascend 950 norm_type is also 2.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, guard_or_false, sym_or
from graph_quant.reference.moe.gating_top_k import LARGEST, SIGMOID, SOFTMAX, SOFTPLUS, TWO_LARGEST
from graph_quant.reference.moe.gating_top_k import gating_top_k as reference
from torch import Tensor

MOST_EXPERTS = 2048
INDEX_DTYPES = (torch.int32, torch.int64)


@operator("npu_moe_gating_top_k", reference=reference, chips=A2_A3_950)
def gating_top_k(
    rules: Rules,
    x: Tensor,
    k: int,
    bias: Tensor | None,
    input_ids: Tensor | None,
    tid2eid: Tensor | None,
    k_group: int,
    group_count: int,
    group_select_mode: int,
    renorm: int,
    norm_type: int,
    out_flag: bool,  # noqa: ARG001
    routed_scaling_factor: float,  # noqa: ARG001
    eps: float,  # noqa: ARG001
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("x", x, FLOATS)
    rules.rank("x", x, 2)
    experts = x.size(1)
    rules.require(experts <= MOST_EXPERTS, lambda: f"x.size(1) must be at most {MOST_EXPERTS}, got {experts}")
    if bias is not None:
        rules.dtype("bias", bias, (x.dtype,), why=", the dtype of x")
        rules.rank("bias", bias, 1)
        rules.equal("bias.size(0)", bias.size(0), "x.size(1)", experts)
    rules.one_of("group_select_mode", group_select_mode, (LARGEST, TWO_LARGEST))
    rules.one_of("renorm", renorm, (0, 1))
    if rules.chip is ASCEND_950:
        rules.one_of("norm_type", norm_type, (SOFTMAX, SIGMOID, SOFTPLUS))
    else:
        rules.one_of("norm_type", norm_type, (SOFTMAX, SIGMOID), why=" on A2 and A3")
    _check_groups(rules, x, k, k_group, group_count, group_select_mode)
    _check_table(rules, x, k, input_ids, tid2eid, k_group, group_count)
    chosen = (x.size(0), k)
    return Plan((Result(chosen, x.dtype), Result(chosen, torch.int32), Result((x.size(0), experts), torch.float32)))


def _check_groups(rules: Rules, x: Tensor, k: int, k_group: int, group_count: int, select_mode: int) -> None:
    experts = x.size(1)
    rules.at_least("group_count", group_count, 1)
    rules.at_least("k_group", k_group, 1)
    rules.require(
        k_group <= group_count, lambda: f"k_group must be no more than group_count, got {k_group} and {group_count}"
    )
    rules.require(
        experts % group_count == 0,
        lambda: f"x.size(1) must be a multiple of group_count, got {experts} and {group_count}",
    )
    in_group = experts // group_count
    rules.at_least("the experts of a group", in_group, 2 if select_mode == TWO_LARGEST else 1)
    rules.at_least("k", k, 1)
    rules.require(
        k <= k_group * in_group,
        lambda: f"k must be no more than the experts of k_group groups, got {k} and {k_group * in_group}",
    )
    if 1 < group_count != k_group:
        stored = group_count * ((in_group + 31) // 32 * 32)
        rules.require(
            sym_or(experts == group_count, stored <= MOST_EXPERTS),
            lambda: f"group_count times the experts of a group, rounded up to 32, must be at most 2048, got {stored}",
        )


def _check_table(
    rules: Rules, x: Tensor, k: int, input_ids: Tensor | None, tid2eid: Tensor | None, k_group: int, group_count: int
) -> None:
    if input_ids is None or tid2eid is None:
        rules.require(input_ids is tid2eid, lambda: "input_ids and tid2eid must be given both, or both be None")
        return
    rules.dtype("input_ids", input_ids, INDEX_DTYPES)
    rules.rank("input_ids", input_ids, 1)
    rules.equal("input_ids.size(0)", input_ids.size(0), "x.size(0)", x.size(0))
    rules.dtype("tid2eid", tid2eid, INDEX_DTYPES)
    rules.rank("tid2eid", tid2eid, 2)
    rules.equal("tid2eid.size(1)", tid2eid.size(1), "k", k)
    rules.require(k <= 64, lambda: f"k must be at most 64 with input_ids, got {k}")
    rules.require(
        k_group == group_count or guard_or_false(x.size(1) == group_count),
        lambda: f"k_group must equal group_count with input_ids, got {k_group} and {group_count}",
    )

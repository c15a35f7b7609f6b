"""npu_moe_gating_top_k: the k experts of each token, and the weight of each.

Scores are a sigmoid (``norm_type`` 1) or softmax (0) of the logits, in float32. Experts are chosen by score plus bias,
the lower index first for equal values, and weighted by score alone: divided by the sum of the chosen scores plus eps
(with a sigmoid, or ``renorm`` 1), times ``routed_scaling_factor``. With groups, experts are chosen from the ``k_group``
groups with the largest maximum (``group_select_mode`` 0) or the largest sum of their two largest values (1).

With ``input_ids`` and ``tid2eid`` the experts of each token are looked up in a table instead. ``out`` holds the scores;
without ``out_flag`` the device does not write it, and it is zero here. The operator's document allows only ``renorm``
0, the device also 1.

Ascend 950 divides by the sum of the softmax, where A2 and A3 multiply by its reciprocal. It has ``norm_type`` 2, scores
of ``sqrt(log(1 + exp(x)))``, whose weights are always divided by their sum.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950, is_950
from graph_quant.ge import kernel
from graph_quant.reference.checks import value_check
from graph_quant.reference.index_checks import check_range
from graph_quant.refusals import Refusal
from torch import Tensor

SOFTMAX, SIGMOID, SOFTPLUS = 0, 1, 2
LARGEST, TWO_LARGEST = 0, 1
_OP = "npu_moe_gating_top_k"


@value_check
def table_rows(input_ids: Tensor, rows: int) -> Tensor:
    """``input_ids``, refused where a value is not a row of the table."""
    check_range(_OP, "input_ids", input_ids, 0, rows)
    return input_ids


@value_check
def table(tid2eid: Tensor, input_ids: Tensor, experts: int) -> Tensor:
    """``tid2eid``, refused where a used row holds a value that is not an expert."""
    chosen = tid2eid[input_ids]
    is_wrong = (chosen < 0) | (chosen >= experts)
    if bool(is_wrong.any()):
        token, choice = is_wrong.nonzero()[0].tolist()
        where = f"tid2eid[{int(input_ids[token])}][{choice}]"
        raise Refusal(f"{_OP}: {where} must lie in [0, {experts - 1}], got {int(chosen[token, choice])}")
    return tid2eid


@kernel("MoeGatingTopK", flops=8, exact=True, same=("x", "bias"), chips=A2_A3_950)
def gating_top_k(
    x: Tensor,
    bias: Tensor | None = None,
    input_ids: Tensor | None = None,
    tid2eid: Tensor | None = None,
    *,
    k: int,
    k_group: int = 1,
    group_count: int = 1,
    group_select_mode: int = LARGEST,
    renorm: int = 0,
    norm_type: int = SOFTMAX,
    out_flag: bool = False,
    routed_scaling_factor: float = 1.0,
    eps: float = 1e-20,
) -> tuple[Tensor, Tensor, Tensor]:
    """``(y, expert_idx, out)``."""
    # The order of summation, and so the rounding, depends on strides.
    values = x.contiguous()
    scores = _SCORES[norm_type](values)
    if input_ids is not None and tid2eid is not None:
        ids = table_rows(input_ids, tid2eid.size(0))
        chosen = table(tid2eid, ids, x.size(1))[ids].long()
    else:
        preferences = scores if bias is None else scores + bias.float()
        if 1 < group_count < x.size(1) and k_group != group_count:
            preferences = _of_best_groups(preferences, group_count, k_group, group_select_mode)
        chosen = best(preferences, k)
    weights = scores.gather(1, chosen)
    if norm_type != SOFTMAX or renorm:
        weights = weights / (weights.sum(1, keepdim=True) + eps)
    y = (weights * routed_scaling_factor).to(x.dtype)
    return y, chosen.to(torch.int32), scores if out_flag else torch.zeros_like(scores)


def _of_best_groups(preferences: Tensor, groups: int, chosen: int, select_mode: int) -> Tensor:
    """``preferences``, set to minus infinity outside the best ``chosen`` groups."""
    grouped = preferences.unflatten(1, (groups, preferences.size(1) // groups))
    worth = grouped.amax(-1) if select_mode == LARGEST else grouped.topk(2).values.sum(-1)
    is_chosen = torch.zeros_like(worth, dtype=torch.bool).scatter(1, best(worth, chosen), True)
    return torch.where(is_chosen.unsqueeze(-1), grouped, -torch.inf).flatten(1)


def best(values: Tensor, k: int) -> Tensor:
    """Indices of the ``k`` largest values of each row, in descending order; equal values in the order of indices."""
    return torch.sort(values, dim=-1, descending=True, stable=True).indices[..., :k]


def sigmoid(x: Tensor) -> Tensor:
    """``1 / (1 + exp(-x))`` in float32."""
    return (x.float().neg().exp() + 1.0).reciprocal()


def softmax(x: Tensor) -> Tensor:
    """``exp(x - max) * (1 / sum)`` over the last dimension, in float32; on Ascend 950 ``exp(x - max) / sum``."""
    values = x.float()
    powers = (values - values.amax(-1, keepdim=True)).exp()
    total = powers.sum(-1, keepdim=True)
    return powers / total if is_950() else powers * total.reciprocal()


def root_of_softplus(x: Tensor) -> Tensor:
    """``sqrt(log(1 + exp(x)))`` in float32."""
    return (x.float().exp() + 1.0).log().sqrt()


_SCORES = {SOFTMAX: softmax, SIGMOID: sigmoid, SOFTPLUS: root_of_softplus}

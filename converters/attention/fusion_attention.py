"""npu_fusion_attention becomes FlashAttentionScore, its gradient FlashAttentionScoreGrad, with the shift of scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graph_quant.converters.lowering import lowers
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

LAYOUTS = ("BSH", "BNSD")


def _check(op: str, input_layout: str, prefix: Sequence[int] | None, sink: Tensor | None, keep_prob: float) -> None:
    if input_layout not in LAYOUTS:
        raise RuntimeError(f"{op}: input_layout must be BSH or BNSD in a graph, got {input_layout!r}; or run eagerly")
    for name, value in (("prefix", prefix), ("sink", sink)):
        if value is not None:
            raise RuntimeError(f"{op}: {name} must be None in a graph, got {type(value).__name__}; or run eagerly")
    if keep_prob != 1:
        raise RuntimeError(f"{op}: keep_prob must be 1 in a graph, got {keep_prob}; or run eagerly")


@lowers("npu_fusion_attention")
def lower(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    pse: Tensor | None,
    atten_mask: Tensor | None,
    scale: float,
    keep_prob: float,
    pre_tockens: int,
    next_tockens: int,
    inner_precise: int,
    sparse_mode: int,
    prefix: Sequence[int] | None,
    sink: Tensor | None,
) -> Sequence[Any]:
    """The GE node of one call, its results in torch's order."""
    _check("npu_fusion_attention", input_layout, prefix, sink, keep_prob)
    largest, total, softmax, out = ge.FlashAttentionScore(
        query, key, value, pse, None, None, atten_mask, None, None, None, None, None,
        head_num=head_num,
        input_layout=input_layout,
        scale_value=scale,
        pre_tockens=pre_tockens,
        next_tockens=next_tockens,
        inner_precise=inner_precise,
        sparse_mode=sparse_mode,
    )  # fmt: skip
    return out, largest, total, softmax, 0, 0, 0


@lowers("npu_fusion_attention_grad")
def lower_grad(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dy: Tensor,
    head_num: int,
    input_layout: str,
    pse: Tensor | None,
    atten_mask: Tensor | None,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    softmax_in: Tensor | None,
    attention_in: Tensor,
    scale_value: float,
    keep_prob: float,
    pre_tockens: int,
    next_tockens: int,
    inner_precise: int,
    sparse_mode: int,
    prefix: Sequence[int] | None,
    sink: Tensor | None,
) -> Sequence[Any]:
    """The GE node of one call, and an empty gradient of the sink."""
    _check("npu_fusion_attention_grad", input_layout, prefix, sink, keep_prob)
    gradients = ge.FlashAttentionScoreGrad(
        query, key, value, dy, pse, None, None, atten_mask, softmax_max, softmax_sum, softmax_in, attention_in,
        None, None, None, None, None,
        head_num=head_num,
        input_layout=input_layout,
        scale_value=scale_value,
        pre_tockens=pre_tockens,
        next_tockens=next_tockens,
        inner_precise=inner_precise,
        sparse_mode=sparse_mode,
    )  # fmt: skip
    return *gradients, ge.Fill(ge.Const([0]), ge.Cast(0.0, dst_type=0))

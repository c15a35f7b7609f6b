"""npu_fused_infer_attention_score and its second version: softmax(scale * q k + shift, masked) v."""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.chip import A2_A3_950
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.refusals import Refusal
from torch import Tensor

from .fused_attention import fused_attention
from .fused_attention_op import fused_attention_op
from .inference_call import Attributes, Operands

OP = "npu_fused_infer_attention_score"


def fused_infer_attention_score(operands: Operands, attrs: Attributes) -> tuple[Tensor, Tensor]:
    """The attention and its log-sum-exp, which is empty unless ``softmax_lse_flag``."""
    return fused_attention(operands, attrs)


@kernel("FusedInferAttentionScore", flops=CONTRACTION, chips=A2_A3_950)
def fused_infer_attention_score_node(
    query: Tensor,
    key: Sequence[Tensor],
    value: Sequence[Tensor],
    pse_shift: Tensor | None = None,
    atten_mask: Tensor | None = None,
    actual_seq_lengths: Tensor | None = None,
    actual_seq_lengths_kv: Tensor | None = None,
    dequant_scale1: Tensor | None = None,
    quant_scale1: Tensor | None = None,
    dequant_scale2: Tensor | None = None,
    quant_scale2: Tensor | None = None,
    quant_offset2: Tensor | None = None,
    antiquant_scale: Tensor | None = None,
    antiquant_offset: Tensor | None = None,
    block_table: Tensor | None = None,
    query_padding_size: Tensor | None = None,
    kv_padding_size: Tensor | None = None,
    key_antiquant_scale: Tensor | None = None,
    key_antiquant_offset: Tensor | None = None,
    value_antiquant_scale: Tensor | None = None,
    value_antiquant_offset: Tensor | None = None,
    key_shared_prefix: Tensor | None = None,
    value_shared_prefix: Tensor | None = None,
    actual_shared_prefix_len: Tensor | None = None,
    query_rope: Tensor | None = None,
    key_rope: Tensor | None = None,
    key_rope_antiquant_scale: Tensor | None = None,  # noqa: ARG001 - reserved
    dequant_scale_query: Tensor | None = None,
    learnable_sink: Tensor | None = None,
    q_start_idx: Tensor | None = None,  # noqa: ARG001 - of Ascend 950
    kv_start_idx: Tensor | None = None,  # noqa: ARG001 - of Ascend 950
    *,
    num_heads: int,
    scale: float = 1.0,
    pre_tokens: int = 2147483647,
    next_tokens: int = 2147483647,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    sparse_mode: int = 0,
    inner_precise: int = 0,
    block_size: int = 0,
    antiquant_mode: int = 0,
    softmax_lse_flag: bool = False,
    key_antiquant_mode: int = 0,
    value_antiquant_mode: int = 0,
    query_quant_mode: int = 0,  # noqa: ARG001 - implied by dequant_scale_query
    pse_type: int = 0,  # noqa: ARG001 - of Ascend 950
    out_dtype: int = 0,  # noqa: ARG001 - of Ascend 950
) -> tuple[Tensor, Tensor]:
    operands = Operands(
        query, _only("key", key), _only("value", value), pse_shift, atten_mask,
        dequant_scale1, quant_scale1, dequant_scale2, quant_scale2, quant_offset2,
        antiquant_scale, antiquant_offset, key_antiquant_scale, key_antiquant_offset,
        value_antiquant_scale, value_antiquant_offset, block_table, query_padding_size, kv_padding_size,
        key_shared_prefix, value_shared_prefix, query_rope, key_rope, dequant_scale_query, learnable_sink,
    )  # fmt: skip
    attrs = Attributes(
        OP, input_layout, num_heads, num_key_value_heads, scale, pre_tokens, next_tokens, sparse_mode, inner_precise,
        block_size, antiquant_mode, key_antiquant_mode, value_antiquant_mode, softmax_lse_flag,
    )  # fmt: skip
    return fused_attention_op(operands, attrs, (actual_seq_lengths, actual_seq_lengths_kv, actual_shared_prefix_len))


def _only(name: str, tensors: Sequence[Tensor]) -> Tensor:
    """The only tensor of a GE list input; no torch operator passes one tensor per batch."""
    if len(tensors) != 1:
        raise Refusal(f"{OP}: {name} must be one tensor, got {len(tensors)}")
    return tensors[0]

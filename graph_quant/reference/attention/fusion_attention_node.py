"""npu_fusion_attention and its gradient as they are called, and their GE nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.ge.kernels import CONTRACTION, kernel
from graph_quant.reference.opaque import opaque
from graph_quant.refusals import Refusal
from torch import Tensor

from .fusion_attention import COPIES, Training, backward, forward

OP = "npu_fusion_attention"


def _call(op: str, scale: float, given: dict[str, Any]) -> Training:
    names = (
        "head_num", "input_layout", "pre_tockens", "next_tockens", "inner_precise", "sparse_mode", "pse",
        "atten_mask", "actual_seq_qlen", "actual_seq_kvlen", "sink", "prefix",
    )  # fmt: skip
    return Training(op, scale=scale, **{name: given[name] for name in names})


def compute(**given: Any) -> tuple[Any, ...]:
    """All results; the fourth is empty, and without dropout there is no seed, offset or count."""
    call = _call(OP, given["scale"], given)
    out, largest, total = forward(call, given["query"], given["key"], given["value"])
    return out, largest, total, out.new_empty(0), 0, 0, 0


def compute_gradients(**given: Any) -> tuple[Tensor, ...]:
    """The gradients of query, key, value, pse and sink."""
    call = _call(f"{OP}_grad", given["scale_value"], given)
    tensors = (given[name] for name in ("query", "key", "value", "dy", "softmax_max", "softmax_sum", "attention_in"))
    return backward(call, *tensors)


def _lengths(x: Tensor | None) -> list[int] | None:
    return None if x is None else x.tolist()


def _infer_forward(
    tensors: Sequence[Tensor], optional: Sequence[Tensor | None], layout: str, scale: float, numbers: Sequence[int]
) -> list[Tensor]:
    del optional, scale
    query, key, value = tensors
    heads = numbers[0]
    if layout == "BNSD":
        batch, tokens, shape = query.size(0), query.size(2), (*query.shape[:3], value.size(3))
    elif layout == "BSH":
        kv_heads = key.size(2) // (query.size(2) // heads)
        batch, tokens, shape = query.size(0), query.size(1), (*query.shape[:2], heads * (value.size(2) // kv_heads))
    else:
        raise Refusal(f"{OP}: input_layout must be BSH or BNSD in a graph, got {layout!r}")
    rows = query.new_empty((batch, heads, tokens, COPIES), dtype=torch.float32)
    return [rows, torch.empty_like(rows), query.new_empty(0), query.new_empty(shape)]


@opaque(_infer_forward)
def fusion_attention_forward(
    tensors: Sequence[Tensor], optional: Sequence[Tensor | None], layout: str, scale: float, numbers: Sequence[int]
) -> list[Tensor]:
    """The results in the order of GE's node."""
    heads, before, after, precise, mode = numbers
    pse, mask, queries, keys = optional
    call = Training(
        OP, heads, layout, scale, before, after, precise, mode, pse, mask, _lengths(queries), _lengths(keys)
    )
    query, key, value = tensors
    out, largest, total = forward(call, query, key, value)
    return [largest, total, out.new_empty(0), out]


def _infer_backward(
    tensors: Sequence[Tensor], optional: Sequence[Tensor | None], layout: str, scale: float, numbers: Sequence[int]
) -> list[Tensor]:
    del layout, scale, numbers
    pse = optional[0]
    gradients = [torch.empty_like(each, memory_format=torch.contiguous_format) for each in tensors[:3]]
    return [*gradients, tensors[0].new_empty(0 if pse is None else pse.shape)]


@opaque(_infer_backward)
def fusion_attention_backward(
    tensors: Sequence[Tensor], optional: Sequence[Tensor | None], layout: str, scale: float, numbers: Sequence[int]
) -> list[Tensor]:
    """The gradients in the order of GE's node."""
    heads, before, after, precise, mode = numbers
    pse, mask, queries, keys = optional
    call = Training(
        f"{OP}_grad", heads, layout, scale, before, after, precise, mode, pse, mask, _lengths(queries), _lengths(keys)
    )
    return list(backward(call, *tensors)[:4])


@kernel("FlashAttentionScore", flops=CONTRACTION)
def flash_attention_score_node(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    real_shift: Tensor | None = None,
    drop_mask: Tensor | None = None,  # noqa: ARG001 - without dropout
    padding_mask: Tensor | None = None,  # noqa: ARG001 - reserved
    atten_mask: Tensor | None = None,
    prefix: Tensor | None = None,  # noqa: ARG001 - of modes that the rules refuse
    actual_seq_qlen: Tensor | None = None,
    actual_seq_kvlen: Tensor | None = None,
    q_start_idx: Tensor | None = None,  # noqa: ARG001
    kv_start_idx: Tensor | None = None,  # noqa: ARG001
    *,
    head_num: int,
    input_layout: str,
    scale_value: float = 1.0,
    keep_prob: float = 1.0,  # noqa: ARG001
    pre_tockens: int = 2147483647,
    next_tockens: int = 2147483647,
    inner_precise: int = 1,
    sparse_mode: int = 0,
) -> tuple[Tensor, ...]:
    optional = [real_shift, atten_mask, actual_seq_qlen, actual_seq_kvlen]
    numbers = [head_num, pre_tockens, next_tockens, inner_precise, sparse_mode]
    return tuple(fusion_attention_forward([query, key, value], optional, input_layout, scale_value, numbers))


@kernel("FlashAttentionScoreGrad", flops=CONTRACTION)
def flash_attention_score_grad_node(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dy: Tensor,
    pse_shift: Tensor | None = None,
    drop_mask: Tensor | None = None,  # noqa: ARG001 - without dropout
    padding_mask: Tensor | None = None,  # noqa: ARG001 - reserved
    atten_mask: Tensor | None = None,
    softmax_max: Tensor | None = None,
    softmax_sum: Tensor | None = None,
    softmax_in: Tensor | None = None,  # noqa: ARG001 - empty
    attention_in: Tensor | None = None,
    prefix: Tensor | None = None,  # noqa: ARG001 - of modes that the rules refuse
    actual_seq_qlen: Tensor | None = None,
    actual_seq_kvlen: Tensor | None = None,
    q_start_idx: Tensor | None = None,  # noqa: ARG001
    kv_start_idx: Tensor | None = None,  # noqa: ARG001
    *,
    head_num: int,
    input_layout: str,
    scale_value: float = 1.0,
    keep_prob: float = 1.0,  # noqa: ARG001
    pre_tockens: int = 65536,
    next_tockens: int = 65536,
    inner_precise: int = 1,
    sparse_mode: int = 0,
) -> tuple[Tensor, ...]:
    assert softmax_max is not None
    assert softmax_sum is not None
    assert attention_in is not None
    tensors = [query, key, value, dy, softmax_max, softmax_sum, attention_in]
    optional = [pse_shift, atten_mask, actual_seq_qlen, actual_seq_kvlen]
    numbers = [head_num, pre_tockens, next_tockens, inner_precise, sparse_mode]
    return tuple(fusion_attention_backward(tensors, optional, input_layout, scale_value, numbers))

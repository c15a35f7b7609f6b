"""The references of npu_fusion_attention in its versions, their gradients, and the GE nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.chip import A2_A3_950, is_950
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.opaque import opaque
from graph_quant.reference.rng import next_seed_and_offset
from graph_quant.refusals import Refusal
from torch import Tensor

from .fusion_attention import backward, forward
from .training_call import COPIES, RngState, TrainingCall

OP = "npu_fusion_attention"
Arguments = dict[str, Any]
_AS_GIVEN = (
    "head_num", "inner_precise", "sparse_mode", "pse", "atten_mask", "sink", "prefix", "softmax_layout", "keep_prob",
)  # fmt: skip


def _make_call(op: str, scale: float, arguments: Arguments, rng_state: RngState | None) -> TrainingCall:
    """The call. Later versions of the operator rename some arguments and add others."""
    return TrainingCall(
        op,
        input_layout=arguments["input_layout"].upper(),
        scale=scale,
        pre_tockens=arguments["pre_tockens"] if "pre_tockens" in arguments else arguments["pre_tokens"],
        next_tockens=arguments["next_tockens"] if "next_tockens" in arguments else arguments["next_tokens"],
        actual_seq_qlen=_to_list(arguments["actual_seq_qlen"]),
        actual_seq_kvlen=_to_list(arguments["actual_seq_kvlen"]),
        pse_type=arguments.get("pse_type", 1),
        starts=((arguments.get("q_start_idx") or [0])[0], (arguments.get("kv_start_idx") or [0])[0]),
        dropout_mask=arguments.get("dropout_mask"),
        rng_state=rng_state,
        **{name: arguments[name] for name in _AS_GIVEN},
    )


def _to_list(x: Tensor | Sequence[int] | None) -> Sequence[int] | None:
    return x.tolist() if isinstance(x, Tensor) else x


def _concat_rope(arguments: Arguments, name: str) -> Tensor:
    rope: Tensor | None = arguments.get(f"{name}_rope")
    return arguments[name] if rope is None else torch.cat([arguments[name], rope], -1)


def compute(**arguments: Any) -> tuple[Any, ...]:
    """All results; the fourth is empty, the last three belong to dropout: seed and offset of the mask, if any."""
    rng_state = next_seed_and_offset() if arguments["keep_prob"] < 1 and arguments.get("dropout_mask") is None else None
    call = _make_call(OP, arguments["scale"], arguments, rng_state)
    out, largest, total = forward(
        call, _concat_rope(arguments, "query"), _concat_rope(arguments, "key"), arguments["value"]
    )
    return out, largest, total, out.new_empty(0), *(rng_state or (0, 0)), 0


def compute_v3(**arguments: Any) -> tuple[Tensor, ...]:
    """All results, with seed and offset as tensors."""
    *results, seed, offset, _ = compute(**arguments)
    return (*results, torch.tensor([seed]), torch.tensor([offset]))


def compute_gradients(**arguments: Any) -> tuple[Tensor, ...]:
    """The gradients of query, key, value, pse and sink."""
    rng_state = (int(arguments["seed"]), int(arguments["offset"])) if arguments["keep_prob"] < 1 else None
    call = _make_call(f"{OP}_grad", arguments["scale_value"], arguments, rng_state)
    rest = (arguments[name] for name in ("value", "dy", "softmax_max", "softmax_sum", "attention_in"))
    return backward(call, _concat_rope(arguments, "query"), _concat_rope(arguments, "key"), *rest)


def compute_gradients_v2(**arguments: Any) -> tuple[Tensor, ...]:
    """The gradients of query, key, value, pse, the rope parts of query and key, and sink."""
    query, key, value, pse, sink = compute_gradients(**arguments)
    width = arguments["query"].size(-1)
    parts = [gradient.split([width, gradient.size(-1) - width], -1) for gradient in (query, key)]
    ropes = [rope if rope.size(-1) else rope.new_empty(0) for _, rope in parts]
    return parts[0][0], parts[1][0], value, pse, *ropes, sink


def _make_node_call(
    op: str, optional: Sequence[Tensor | None], layout: str, scale: float, numbers: Sequence[int]
) -> TrainingCall:
    """The call of a GE node: ``numbers`` are heads, pre_tockens, next_tockens, inner_precise and sparse_mode."""
    heads, before, after, precise, mode = numbers
    pse, mask, queries, keys = optional
    lengths = _to_list(queries), _to_list(keys)
    return TrainingCall(op, heads, layout, scale, before, after, precise, mode, pse, mask, *lengths)


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
    """The results in the order of the GE node."""
    query, key, value = tensors
    out, largest, total = forward(_make_node_call(OP, optional, layout, scale, numbers), query, key, value)
    return [largest, total, out.new_empty(0), out]


def _infer_backward(
    tensors: Sequence[Tensor], optional: Sequence[Tensor | None], layout: str, scale: float, numbers: Sequence[int]
) -> list[Tensor]:
    del layout, scale, numbers
    pse = optional[0]
    gradients = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in tensors[:3]]
    return [*gradients, tensors[0].new_empty(0 if pse is None else pse.shape)]


@opaque(_infer_backward)
def fusion_attention_backward(
    tensors: Sequence[Tensor], optional: Sequence[Tensor | None], layout: str, scale: float, numbers: Sequence[int]
) -> list[Tensor]:
    """The gradients in the order of the GE node."""
    return list(backward(_make_node_call(f"{OP}_grad", optional, layout, scale, numbers), *tensors)[:4])


@kernel("FlashAttentionScore", flops=CONTRACTION, chips=A2_A3_950)
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
    if real_shift is not None and is_950():
        raise NotImplementedError("FlashAttentionScore: real_shift has no host kernel of Ascend 950")
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

"""npu_fusion_attentions, its later versions and their gradients: rules and results.

Form 2 takes rotated parts of query and key, and more kinds of shift; form 3 takes lengths as tensors of the host, and
gives seed and offset as tensors.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.meta.attention.fusion_rules import Arguments, check, draws, result_shape, rows_shape, weights
from graph_quant.meta.attention.signatures import with_signature
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.ascend950 import find_undescribed_in_training
from graph_quant.reference.attention.fusion_attention_node import (
    compute,
    compute_gradients,
    compute_gradients_v2,
    compute_v3,
)
from torch import Tensor

_START = ("query", "key", "value", "head_num", "input_layout", "pse", "padding_mask", "atten_mask")
_BEFORE, _AFTER = ("pre_tockens", "next_tockens"), ("pre_tokens", "next_tokens")
_LENGTHS = ("prefix", "actual_seq_qlen", "actual_seq_kvlen", "sparse_mode", "gen_mask_parallel", "sync")
_SHIFT, _SINK = ("pse_type", "q_start_idx", "kv_start_idx"), ("softmax_layout", "sink")
_DROPOUT = ("dropout_mask", "seed", "offset")
_ROPE = ("query_rope", "key_rope")
FORWARD = (*_START, "scale", "keep_prob", *_BEFORE, "inner_precise", *_LENGTHS, *_SINK, *_DROPOUT)
FORWARD_V2 = (*_START, *_ROPE, "scale", "keep_prob", *_AFTER, "inner_precise", *_LENGTHS, *_SHIFT, *_SINK, *_DROPOUT)
FORWARD_V3 = FORWARD[: -len(_DROPOUT)]
_KEPT = ("softmax_max", "softmax_sum", "softmax_in", "attention_in")
_GRADIENT = (*_START[:3], "dy", *_START[3:], *_KEPT)
_SEED = ("inner_precise", "seed", "offset")
BACKWARD = (*_GRADIENT, "scale_value", "keep_prob", *_BEFORE, *_SEED, "numels", *_LENGTHS, *_SINK)
BACKWARD_V2 = (*_GRADIENT, *_ROPE, "scale_value", "keep_prob", *_AFTER, *_SEED, "numels", *_LENGTHS, *_SHIFT, *_SINK)
BACKWARD_V3 = (*_GRADIENT, "scale_value", "keep_prob", *_BEFORE, *_SEED, *_LENGTHS, *_SINK)
_HOST_LENGTHS = ("actual_seq_qlen", "actual_seq_kvlen")


def _name_arguments(names: tuple[str, ...], values: tuple[Any, ...]) -> Arguments:
    arguments = dict(zip(names, values, strict=True))
    return arguments | {"input_layout": arguments["input_layout"].upper()}


def _check_rope(rules: Rules, arguments: Arguments) -> None:
    """Rotated parts stand beside packed query and key, in bfloat16, under a mask and without a shift."""
    ropes = [arguments.get(name) for name in _ROPE]
    if all(rope is None for rope in ropes):
        return
    if any(rope is None for rope in ropes):
        rules.refuse("query_rope and key_rope must be given both or not at all, got one")
    rules.one_of("input_layout", arguments["input_layout"], ("TND",), why=" beside query_rope")
    rules.dtype("query", arguments["query"], (torch.bfloat16,), why=" beside query_rope")
    if arguments["atten_mask"] is None:
        rules.refuse("atten_mask must be given beside query_rope, got None")
    for name in ("pse", "dropout_mask"):
        if arguments.get(name) is not None:
            rules.refuse(f"{name} must be None beside query_rope, got {type(arguments[name]).__name__}")
    rules.require(arguments["sparse_mode"] != 6, lambda: "sparse_mode must not be 6 beside query_rope, got 6")
    for name in ("query", "key"):
        _check_part(rules, f"{name}_rope", arguments[f"{name}_rope"], name, arguments[name])
    rules.equal(
        "key_rope.size(2)", arguments["key_rope"].size(2), "query_rope.size(2)", arguments["query_rope"].size(2)
    )


def _check_part(rules: Rules, name: str, rope: Tensor, whole_name: str, whole: Tensor) -> None:
    rules.dtype(name, rope, (torch.bfloat16,))
    rules.rank(name, rope, 3)
    for dim in (0, 1):
        rules.equal(f"{name}.size({dim})", rope.size(dim), f"{whole_name}.size({dim})", whole.size(dim))
    rules.require(
        rope.size(2) <= whole.size(2), lambda: f"{name}.size(2) must be at most {whole.size(2)}, got {rope.size(2)}"
    )


def _forward(rules: Rules, arguments: Arguments) -> tuple[Result, ...]:
    if rules.chip is ASCEND_950:
        undescribed = find_undescribed_in_training(arguments)
        rules.require(undescribed is None, lambda: str(undescribed))
    check(rules, arguments)
    _check_rope(rules, arguments)
    query, rows = arguments["query"], Result(rows_shape(arguments), torch.float32)
    return Result(result_shape(arguments), query.dtype), rows, rows, Result((0,), query.dtype)


def _backward(rules: Rules, arguments: Arguments) -> list[Result]:
    """The gradients of query, key, value and pse."""
    check(rules, arguments)
    _check_rope(rules, arguments)
    query = arguments["query"]
    for name in ("seed", "offset"):
        if isinstance(arguments[name], Tensor):
            rules.dtype(name, arguments[name], (torch.int64,))
        elif arguments[name] is None and draws(arguments):
            rules.refuse(f"{name} must be given where keep_prob is below 1, got None")
    for name in ("softmax_max", "softmax_sum", "attention_in"):
        if arguments[name] is None:
            rules.refuse(f"{name} must be given, got None")
    for name in ("dy", "attention_in"):
        rules.dtype(name, arguments[name], (query.dtype,), why=", the dtype of query")
        _check_shape(rules, name, arguments[name], "attention", result_shape(arguments))
    for name in ("softmax_max", "softmax_sum"):
        rules.dtype(name, arguments[name], (torch.float32,))
        _check_shape(rules, name, arguments[name], "the forward result", rows_shape(arguments))
    return [_like(arguments[name], query.dtype) for name in ("query", "key", "value", "pse")]


def _like(x: Tensor | None, dtype: torch.dtype) -> Result:
    return Result((0,), dtype) if x is None else Result(tuple(x.shape), x.dtype)


def _check_shape(rules: Rules, name: str, tensor: Tensor, like: str, shape: tuple[Any, ...]) -> None:
    rules.rank(name, tensor, len(shape), why=f", as many as {like}")
    for dim, size in enumerate(shape):
        rules.equal(f"{name}.size({dim})", tensor.size(dim), f"that of {like}", size)


def _planning(names: tuple[str, ...]) -> Any:
    """The rules of a form that counts: with dropout seed and offset come back, and how many weights there are."""

    def plan(rules: Rules, *values: Any) -> Plan:
        arguments = _name_arguments(names, values)
        results = _forward(rules, arguments)
        if draws(arguments):
            if not rules.is_eager:
                rules.refuse(
                    "keep_prob must be 1, or dropout_mask given, where a call is traced or captured, which would keep "
                    f"seed and offset of the first mask; npu_fusion_attention_v3 draws, got {arguments['keep_prob']}"
                )
            return Plan((*results, int, int, weights(arguments)))
        dropped = arguments["dropout_mask"] is not None
        counts = (arguments["seed"], arguments["offset"], weights(arguments)) if dropped else (0, 0, 0)
        return Plan((*results, *counts))

    return with_signature(("rules", *names), plan)


def _plan_v3(rules: Rules, *values: Any) -> Plan:
    number = Result((1,), torch.int64)
    return Plan((*_forward(rules, _name_arguments(FORWARD_V3, values)), number, number))


def _planning_gradients(names: tuple[str, ...]) -> Any:
    def plan(rules: Rules, *values: Any) -> Plan:
        arguments = _name_arguments(names, values)
        gradients = _backward(rules, arguments)
        if "query_rope" in arguments:
            gradients += [_like(arguments[name], arguments["query"].dtype) for name in _ROPE]
        return Plan((*gradients, _like(arguments["sink"], torch.float32)))

    return with_signature(("rules", *names), plan)


fusion_attention = operator("npu_fusion_attention", reference=with_signature(FORWARD, compute), chips=A2_A3_950)(
    _planning(FORWARD)
)
fusion_attention_v2 = operator(
    "npu_fusion_attention_v2", reference=with_signature(FORWARD_V2, compute), chips=A2_A3_950
)(_planning(FORWARD_V2))
fusion_attention_v3 = operator(
    "npu_fusion_attention_v3",
    reference=with_signature(FORWARD_V3, compute_v3),
    on_any_device=_HOST_LENGTHS,
    chips=A2_A3_950,
)(with_signature(("rules", *FORWARD_V3), _plan_v3))
fusion_attention_grad = operator("npu_fusion_attention_grad", reference=with_signature(BACKWARD, compute_gradients))(
    _planning_gradients(BACKWARD)
)
fusion_attention_grad_v2 = operator(
    "npu_fusion_attention_grad_v2", reference=with_signature(BACKWARD_V2, compute_gradients_v2)
)(_planning_gradients(BACKWARD_V2))
fusion_attention_grad_v3 = operator(
    "npu_fusion_attention_grad_v3",
    reference=with_signature(BACKWARD_V3, compute_gradients),
    on_any_device=(*_HOST_LENGTHS, "seed", "offset"),
)(_planning_gradients(BACKWARD_V3))

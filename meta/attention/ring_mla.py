"""ATB's npu_ring_mla: attention of queries and keys with rope parts, merged with the result over earlier keys.

Parts have 128 and 64 channels, values 128; lengths are int32 on the CPU, (sequences,) or one row for queries and one
for keys. The mask is the kernel's table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from graph_quant.meta import atb  # noqa: F401 (it defines the operators)
from graph_quant.meta.attention.atb import HALVES, check_heads
from graph_quant.meta.attention.signatures import with_signature
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.attention import ring_mla as reference
from torch import Tensor

WIDE, NARROW, TRIANGLE = 128, 64, 512
NAMES = (
    "q_nope", "q_rope", "k_nope", "k_rope", "value", "mask", "seqlen", "head_num", "kv_head_num", "pre_out", "prev_lse",
    "qk_scale", "kernel_type", "mask_type", "input_layout", "calc_type",
)  # fmt: skip
_CHOICES = {
    "kernel_type": ("kernel_type_high_precision",),
    "mask_type": ("no_mask", "mask_type_triu"),
    "input_layout": ("type_bsnd",),
    "calc_type": ("calc_type_first_ring", "calc_type_default"),
}


@dataclass(frozen=True)
class RingPlan(Plan):
    """``is_causal``: the attention is causal."""

    is_causal: bool


def check_shape(rules: Rules, name: str, tensor: Tensor, shape: tuple[Size, ...]) -> None:
    """Refuses a tensor without the sizes that follow from other arguments."""
    rules.rank(name, tensor, len(shape))
    for dim, size in enumerate(shape):
        rules.equal(f"{name}.size({dim})", tensor.size(dim), "what the others say", size)


def _check(rules: Rules, arguments: dict[str, Any]) -> RingPlan:
    heads, kv_heads = arguments["head_num"], arguments["kv_head_num"]
    check_heads(rules, heads, kv_heads)
    for name, allowed in _CHOICES.items():
        if arguments[name] is not None:
            rules.one_of(name, arguments[name], allowed)
    query, key = arguments["q_nope"], arguments["k_nope"]
    rules.dtype("q_nope", query, HALVES)
    sizes = {"q_nope": (query, heads, WIDE), "q_rope": (query, heads, NARROW)}
    sizes |= {"k_nope": (key, kv_heads, WIDE), "k_rope": (key, kv_heads, NARROW), "value": (key, kv_heads, WIDE)}
    for name, (like, count, width) in sizes.items():
        rules.dtype(name, arguments[name], (query.dtype,), ", the dtype of q_nope")
        check_shape(rules, name, arguments[name], (like.size(0), count, width))
    seqlen = arguments["seqlen"]
    rules.dtype("seqlen", seqlen, (torch.int32,))
    rules.require(seqlen.device.type in ("cpu", "meta"), lambda: f"seqlen must be on the CPU, got {seqlen.device}")
    rules.rank("seqlen", seqlen, 1, 2)
    if seqlen.dim() == 2:
        rules.equal("seqlen.size(0)", seqlen.size(0), "one of queries and one of keys", 2)
    _check_before(rules, arguments)
    is_causal = arguments["mask_type"] == "mask_type_triu"
    if is_causal:
        _check_mask(rules, arguments)
    return RingPlan((), is_causal)


def _check_before(rules: Rules, arguments: dict[str, Any]) -> None:
    """calc_type_default merges with an earlier result; calc_type_first_ring has none."""
    adds = arguments["calc_type"] == "calc_type_default"
    tokens, heads = arguments["q_nope"].size(0), arguments["head_num"]
    expected: dict[str, tuple[tuple[Size, ...], torch.dtype]] = {
        "pre_out": ((tokens, heads, WIDE), arguments["q_nope"].dtype),
        "prev_lse": ((heads, tokens), torch.float32),
    }
    for name, (shape, dtype) in expected.items():
        if arguments[name] is None:
            rules.require(not adds, lambda name=name: f"{name} must be given in calc_type_default, got None")  # type: ignore[misc]
        elif not adds:
            rules.refuse(f"{name} must be None in calc_type_first_ring, got a tensor")
        else:
            rules.dtype(name, arguments[name], (dtype,))
            check_shape(rules, name, arguments[name], shape)


def _check_mask(rules: Rules, arguments: dict[str, Any]) -> None:
    mask, seqlen = arguments["mask"], arguments["seqlen"]
    rules.dtype("mask", mask, (arguments["q_nope"].dtype,), ", the dtype of q_nope")
    rules.require(
        list(mask.shape[-2:]) == [TRIANGLE, TRIANGLE] and mask.dim() in (2, 3),
        lambda: f"mask must be ({TRIANGLE}, {TRIANGLE}), or one for each sequence, got {list(mask.shape)}",
    )
    if mask.dim() == 3:
        rules.equal("mask.size(0)", mask.size(0), "the sequences", seqlen.size(-1))


def _plan(rules: Rules, *values: Any) -> RingPlan:
    arguments = dict(zip(NAMES, values, strict=True))
    is_causal = _check(rules, arguments).is_causal
    tokens, heads = arguments["q_nope"].size(0), arguments["head_num"]
    results = Result((tokens, heads, WIDE), arguments["q_nope"].dtype), Result((heads, tokens), torch.float32)
    return RingPlan(results, is_causal)


def _plan_into(rules: Rules, *values: Any) -> RingPlan:
    *arguments, output, softmax_lse = values
    plan = _plan(rules, *arguments)
    for (name, tensor), result in zip(
        {"output": output, "softmax_lse": softmax_lse}.items(), plan.results, strict=True
    ):
        assert isinstance(result, Result)
        rules.dtype(name, tensor, (result.dtype,))
        check_shape(rules, name, tensor, result.shape)
    return RingPlan(("output", "softmax_lse"), plan.is_causal)


operator("atb::npu_ring_mla", reference=reference.compute, on_any_device=("seqlen",))(
    with_signature(("rules", *NAMES), _plan)
)
operator("atb::npu_ring_mla.out", reference=reference.write_results, on_any_device=("seqlen",))(
    with_signature(("rules", *NAMES, "output", "softmax_lse"), _plan_into)
)

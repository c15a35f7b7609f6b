"""npu_fused_floyd_attention and its gradient: rules and results.

query_ik is (B, heads, N, M, channels), key_ij and value_ij (B, heads, N, K, channels), key_jk and value_jk (B, heads,
K, M, channels), float16 or bfloat16 all; N a multiple of 16, M and K of 128, 32, 64 or 128 channels, at most 2048
batches and 256 heads. atten_mask is bool or uint8, (B, 1, N, 1, K); 1 hides.
"""

from __future__ import annotations

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.attention import fused_floyd_attention as reference
from torch import Tensor

CHANNELS = (32, 64, 128)
MOST_BATCHES, MOST_HEADS, MOST = 2048, 256, 2**20
TIMES = 8


def _check(
    rules: Rules, query: Tensor, parts: dict[str, Tensor], atten_mask: Tensor | None
) -> tuple[Size, Size, Size, Size]:
    rules.dtype("query_ik", query, (torch.float16, torch.bfloat16))
    rules.rank("query_ik", query, 5)
    batches, heads, rows, columns, width = query.shape
    rules.one_of("query_ik.size(4)", width, CHANNELS)
    key = parts["key_ij"]
    rules.rank("key_ij", key, 5)
    between = key.size(3)
    for name, tensor in parts.items():
        sizes = (
            (batches, heads, rows, between, width) if name.endswith("ij") else (batches, heads, between, columns, width)
        )
        rules.dtype(name, tensor, (query.dtype,), ", the dtype of query_ik")
        rules.rank(name, tensor, 5)
        for dim, size in enumerate(sizes):
            rules.equal(f"{name}.size({dim})", tensor.size(dim), "what query_ik and key_ij give it", size)
    _check_size(rules, "query_ik.size(2)", rows, 16)
    _check_size(rules, "query_ik.size(3)", columns, 128)
    _check_size(rules, "key_ij.size(3)", between, 128)
    for name, size, most in (("query_ik.size(0)", batches, MOST_BATCHES), ("query_ik.size(1)", heads, MOST_HEADS)):
        rules.at_least(name, size, 1)
        rules.require(size <= most, lambda n=name, s=size, m=most: f"{n} must be at most {m}, got {s}")  # type: ignore[misc]
    if atten_mask is not None:
        rules.dtype("atten_mask", atten_mask, (torch.bool, torch.uint8))
        rules.rank("atten_mask", atten_mask, 5)
        for dim, size in enumerate((batches, 1, rows, 1, between)):
            rules.equal(f"atten_mask.size({dim})", atten_mask.size(dim), "that of (B, 1, N, 1, K)", size)
    return batches, heads, rows, columns


def _check_size(rules: Rules, name: str, size: Size, step: int) -> None:
    rules.at_least(name, size, step)
    rules.require(size % step == 0, lambda: f"{name} must be a multiple of {step}, got {size}")
    rules.require(size <= MOST, lambda: f"{name} must be at most {MOST}, got {size}")


@operator("npu_fused_floyd_attention", reference=reference.floyd_attention)
def floyd_attention(
    rules: Rules,
    query_ik: Tensor,
    key_ij: Tensor,
    value_ij: Tensor,
    key_jk: Tensor,
    value_jk: Tensor,
    atten_mask: Tensor | None,
    scale_value: float,  # noqa: ARG001 - any
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    parts = {"key_ij": key_ij, "value_ij": value_ij, "key_jk": key_jk, "value_jk": value_jk}
    moment = Result((*_check(rules, query_ik, parts, atten_mask), TIMES), torch.float32)
    return Plan((moment, moment, Result(tuple(query_ik.shape), query_ik.dtype)))


@operator("npu_fused_floyd_attention_backward", reference=reference.floyd_attention_backward)
def floyd_attention_backward(
    rules: Rules,
    grad_output: Tensor,
    query_ik: Tensor,
    key_ij: Tensor,
    value_ij: Tensor,
    key_jk: Tensor,
    value_jk: Tensor,
    attention_out: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    atten_mask: Tensor | None,
    scale_value: float,  # noqa: ARG001
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    parts = {"key_ij": key_ij, "value_ij": value_ij, "key_jk": key_jk, "value_jk": value_jk}
    sizes = (*_check(rules, query_ik, parts, atten_mask), TIMES)
    rules.like("grad_output", grad_output, "query_ik", query_ik)
    rules.like("attention_out", attention_out, "query_ik", query_ik)
    for name, moment in (("softmax_max", softmax_max), ("softmax_sum", softmax_sum)):
        rules.dtype(name, moment, (torch.float32,))
        rules.rank(name, moment, 5)
        for dim, size in enumerate(sizes):
            rules.equal(f"{name}.size({dim})", moment.size(dim), "that of the forward call", size)
    inputs = (query_ik, key_ij, value_ij, key_jk, value_jk)
    return Plan(tuple(Result(tuple(tensor.shape), tensor.dtype) for tensor in inputs))

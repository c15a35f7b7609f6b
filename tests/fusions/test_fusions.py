"""Fused graphs: what is fused, into which operators, within which bound of the plain function, and why not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu
from functorch.compile import make_boxed_func
from graph_quant import fusions
from graph_quant.fusions import module_numbers
from graph_quant.fusions.apply import FUSIONS, FusionReport
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.functional import gelu

from support.tensors import bf16, f16, f32, i8

BF16 = torch.bfloat16
HEADS = 2  # the dimension of a BSND tensor that stays static


def norm(x: Tensor, weight: Tensor) -> Tensor:
    """As transformers writes it."""
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * wide.to(x.dtype)


def gemma_norm(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (wide * (1.0 + weight.float())).type_as(x)


def normalised_attention(query: Tensor, key: Tensor, value: Tensor, weight: Tensor) -> Tensor:
    """Norms behind the transposes, as in Gemma 3."""
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    return torch_npu.npu_fusion_attention(norm(q, weight), norm(k, weight), v, 4, "BNSD")[0].transpose(1, 2)


def norm_weighted_first(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    return (torch.rsqrt((wide * wide).mean(dim=-1, keepdim=True) + 1e-5) * wide * weight).to(x.dtype)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.size(-1) // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def rotated_chunks(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    low, high = x.chunk(2, -1)
    return torch.cat((-high, low), -1) * sin + cos * x


def rotated_parts(first: Tensor, second: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def quantised_norm(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    """A residual, a norm, and the two quantisations of gate and up."""
    total = x + residual
    rows = norm(total, weight).view(-1, x.size(-1))
    return *torch_npu.npu_dynamic_quant(rows), *torch_npu.npu_dynamic_quant(rows), total


def statically_quantised_norm(x: Tensor, residual: Tensor, weight: Tensor, scale: Tensor) -> tuple[Tensor, ...]:
    """A residual, a norm, and the two quantisations of gate and up with stored scales."""
    point, total = torch.zeros_like(scale), x + residual
    rows = norm(total, weight).view(-1, x.size(-1))
    quantised = [torch_npu.npu_quantize(rows, scale, point, torch.qint8, axis=-1, div_mode=False) for _ in range(2)]
    return *quantised, total


def attention(query: Tensor, key: Tensor, value: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Four heads of queries, two of keys and values, as transformers' sdpa attention."""
    heads = (x.transpose(1, 2) for x in (query, key, value))
    q, k, v = heads
    q, k = rotated(q, cos, sin), rotated(k, cos, sin)
    k, v = (x[:, :, None, :, :].expand(-1, -1, 2, -1, -1).reshape(x.size(0), 4, *x.shape[2:]) for x in (k, v))
    out = torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD", scale=0.125)[0]
    return out.transpose(1, 2).contiguous().view(*query.shape[:2], -1)


def product(rows: Tensor, weight: Tensor, scale: Tensor, token_scales: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch_npu.npu_quant_matmul(
        rows, weight.t(), scale, pertoken_scale=token_scales, bias=bias, output_dtype=torch.bfloat16
    )


def merged_heads(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor) -> list[Tensor]:
    """Four heads of queries, two of keys and values, whose weights are slices of one."""
    quantised = torch_npu.npu_dynamic_quant(x.view(-1, x.size(-1)))
    bounds = ((0, 256), (256, 384), (384, 512))
    parts = (product(quantised[0], weight[a:b], scale[a:b], quantised[1], bias[a:b]) for a, b in bounds)
    return [part.view(*x.shape[:2], -1).view(*x.shape[:2], -1, 64).transpose(1, 2) for part in parts]


def merged_without_heads(x: Tensor, weight: Tensor, scale: Tensor) -> list[Tensor]:
    """Views of four dimensions that do not divide the channels into heads."""
    quantised = torch_npu.npu_dynamic_quant(x)
    parts = (product(quantised[0], weight[a:b], scale[a:b], quantised[1]) for a, b in ((0, 32), (32, 64)))
    return [part.view(1, 2, -1, 32).relu() for part in parts]


def merged_mlp(x: Tensor, weight: Tensor, scale: Tensor) -> tuple[Tensor, ...]:
    """Gate and up, whose weights are slices of one, and the quantisation before the last linear."""
    quantised = torch_npu.npu_dynamic_quant(x)
    half = weight.size(0) // 2
    parts = slice(0, half), slice(half, None)
    gate, up = (product(quantised[0], weight[part], scale[part], quantised[1]) for part in parts)
    return torch_npu.npu_dynamic_quant(torch.nn.functional.silu(gate) * up)


def cached_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Keys and values are stored by heads, as caches are."""
    return torch_npu.npu_fusion_attention(query, key, value, 4, "BNSD", scale=0.125)[0]


def sink_attention(query: Tensor, key: Tensor, value: Tensor, sink: Tensor, seen: Tensor) -> Tensor:
    return masked_sink_attention(query, key, value, sink, seen, torch.finfo(BF16).min)


def masked_sink_attention(
    query: Tensor, key: Tensor, value: Tensor, sink: Tensor, seen: Tensor, hidden: float
) -> Tensor:
    """As gpt-oss has it: four heads of queries, two of keys and values."""
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    k, v = (x[:, :, None].expand(-1, -1, 2, -1, -1).reshape(x.size(0), 4, *x.shape[2:]) for x in (k, v))
    scores = q @ k.transpose(2, 3) * 0.125 + torch.where(seen, torch.zeros([], dtype=q.dtype, device=q.device), hidden)
    columns = torch.cat([scores, sink.reshape(1, -1, 1, 1).expand(q.size(0), -1, q.size(2), -1)], -1)
    weights = (columns - columns.max(dim=-1, keepdim=True).values).softmax(-1)[..., :-1]
    out = torch.nn.functional.dropout(weights, 0.0, training=False) @ v
    return out.transpose(1, 2).contiguous()


def joined(first: Tensor, second: Tensor) -> Tensor:
    """As DeepSeek-V3 joins the channels without and with positions of its keys."""
    return copied_into(first, second, first.size(-1))


def copied_into(first: Tensor, second: Tensor, start: int) -> Tensor:
    whole = first.new_empty(*first.shape[:-1], start + second.size(-1))
    for part, begin in ((first, 0), (second, start)):  # as AOTAutograd has copies into slices
        end = begin + part.size(-1)
        copied = torch.ops.aten.copy.default(whole[..., begin:end], part)
        whole = whole.slice_scatter(copied, 3, begin, end)
    return whole


def latent_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """128 channels without positions and 64 with them; one head of keys with positions."""
    keys = joined(key[..., :128], key[:, :1, :, 128:].expand(-1, 4, -1, -1))
    queries = torch.cat([query[..., :128], query[..., 128:]], -1)
    return torch_npu.npu_fusion_attention(queries, keys, value, 4, "BNSD", scale=0.07)[0]


def token_heads(x: Tensor, weight: Tensor) -> list[Tensor]:
    """Four heads of queries, which are normalised, two of keys and values."""
    query, key, value = x.view(x.size(0), 1, 8, 64).split_with_sizes([4, 2, 2], 2)
    query = torch_npu.npu_rms_norm(query, weight)[0]
    return [heads.transpose(1, 2) * 2 for heads in (query, key, value)]


def updated(cache: Tensor, x: Tensor, start: Tensor) -> Tensor:
    """As a StaticCache is."""
    return cache.index_copy(2, torch.arange(x.size(2), device=x.device) + start, x)


def decode_step(cache: Tensor, length: Tensor, x: Tensor) -> Tensor:
    """Keys are written in place, then read by attention, whose result is transposed; the length grows."""
    positions = torch.arange(x.size(2), device=x.device) + length
    length.add_(x.size(2))
    cache.index_copy_(2, positions, x)
    return torch_npu.npu_fusion_attention(x, cache, cache, 4, "BNSD", scale=0.125)[0].transpose(1, 2) * 2


def routed(x: Tensor) -> tuple[Tensor, Tensor]:
    """As Qwen3-MoE and Mixtral route."""
    weights, experts = x.float().softmax(-1).topk(2, dim=-1)
    return (weights / weights.sum(-1, keepdim=True)).to(x.dtype), experts.int()


def routed_without_renormalising(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.float().softmax(-1).topk(3)


def routed_by_logits(x: Tensor) -> tuple[Tensor, Tensor]:
    """As gpt-oss routes."""
    values, experts = x.topk(2, dim=-1)
    return values.softmax(1, dtype=values.dtype), experts


def routed_by_groups(x: Tensor, bias: Tensor) -> Tensor:
    """As DeepSeek-V3 routes: four experts, of the two best of four groups; their weights in order of the experts."""
    return weights_of_groups(x, bias, float("-inf"))


def weights_of_groups(x: Tensor, bias: Tensor, fill: float) -> Tensor:
    scores = x.sigmoid()
    biased = scores + bias
    groups = biased.view(-1, 4, 4).topk(2, dim=-1)[0].sum(-1)
    mask = torch.zeros_like(groups).scatter(1, groups.topk(2, dim=-1, sorted=False)[1], 1)
    is_allowed = mask.unsqueeze(-1).expand(-1, 4, 4).reshape(-1, 16)
    experts = biased.masked_fill(~is_allowed.bool(), fill).topk(4, dim=-1, sorted=False)[1]
    weights = scores.gather(1, experts)
    weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * 2.5
    return torch.zeros_like(x).scatter(1, experts, weights)


def experts_of_rows(
    x: Tensor, index: Tensor, weights: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor
) -> Tensor:
    """As transformers compiles the experts of gpt-oss: rows are sorted, multiplied in groups, and put back."""
    return weighted_rows(x, index, weights, up, up_bias, down, down_bias, index.size(1))


def weighted_rows(
    x: Tensor, index: Tensor, weights: Tensor, up: Tensor, up_bias: Tensor, down: Tensor, down_bias: Tensor, top_k: int
) -> Tensor:
    experts, order = torch.sort(index.reshape(-1))
    rows = x[order // top_k]
    ends = torch.histc(experts.int(), bins=4, min=0, max=3).cumsum(0, dtype=torch.int32)
    inner = torch._grouped_mm(rows, up, offs=ends) + up_bias[experts]
    result = torch._grouped_mm(torch.nn.functional.silu(inner), down, offs=ends) + down_bias[experts]
    result = result * weights.reshape(-1)[order].unsqueeze(-1)
    inverse = torch.empty_like(order).index_put([order], torch.arange(order.size(0), device=x.device))
    return result[inverse].view(x.size(0), index.size(1), -1).sum(1)


def clipped_gate(gate: Tensor, up: Tensor, limit: float = 7.0) -> Tensor:
    """As in gpt-oss."""
    gate, up = gate.clamp(max=7.0), up.clamp(-limit, limit)
    return (up + 1) * (gate * torch.sigmoid(gate * 1.702))


def gated(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def gated_rows(gate: Tensor, up: Tensor) -> tuple[Tensor, ...]:
    shape = (2, -1, gate.size(-1))
    inner = torch.nn.functional.silu(gate.view(shape)) * up.view(shape)
    return torch_npu.npu_dynamic_quant(inner.view(gate.shape))


ROPE = (f32(1, 1, 6, 64).cos(), f32(1, 1, 6, 64).sin())
HALF_ROPE = tuple(table.to(BF16) for table in ROPE)
SINK = (
    bf16(2, 6, 4, 64), bf16(2, 6, 2, 64), bf16(2, 6, 2, 64), bf16(4), torch.ones(1, 1, 6, 6, dtype=torch.bool).tril(),
)  # fmt: skip
CHOSEN = torch.tensor([[0, 3], [1, 0], [3, 1], [2, 0], [1, 3], [0, 1]])
EXPERTS = (
    bf16(6, 32), CHOSEN, bf16(6, 2).abs(), bf16(4, 32, 64) / 8, bf16(4, 64), bf16(4, 64, 32) / 8, bf16(4, 32)
)  # fmt: skip
# The function, its inputs, and the npu operators that are left.
FUSED: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], list[str]]] = {
    "rms_norm": (norm, (bf16(2, 6, 32), bf16(32)), ["npu_rms_norm"]),
    "rms_norm of float16": (norm, (f16(2, 6, 32), f16(32)), ["npu_rms_norm"]),
    "rms_norm of float32": (norm_weighted_first, (f32(6, 32), f32(32)), ["npu_rms_norm"]),
    "rms_norm weighted before the cast": (norm_weighted_first, (bf16(6, 32), bf16(32)), ["npu_rms_norm"]),
    "gemma_rms_norm": (gemma_norm, (bf16(2, 6, 32), bf16(32)), ["npu_gemma_rms_norm"]),
    "add_rms_norm": (
        lambda x, y, w: (norm(x + y, w), x + y), (bf16(2, 6, 32), bf16(2, 6, 32), bf16(32)), ["npu_add_rms_norm"]
    ),
    "add_rms_norm_dynamic_quant": (
        quantised_norm, (bf16(2, 6, 32), bf16(2, 6, 32), bf16(32)), ["npu_add_rms_norm_dynamic_quant"]
    ),
    "add_rms_norm_quant": (
        statically_quantised_norm,
        (bf16(2, 6, 32), bf16(2, 6, 32), bf16(32), bf16(32).abs() * 20),
        ["npu_add_rms_norm_quant"],
    ),
    "add_rms_norm_quant of float16": (
        statically_quantised_norm,
        (f16(2, 6, 32), f16(2, 6, 32), f16(32), f16(32).abs() * 20),
        ["npu_add_rms_norm_quant"],
    ),
    "rotary_mul": (rotated, (bf16(2, 4, 6, 64), *HALF_ROPE), ["npu_rotary_mul"]),
    "rotary_mul of chunks": (rotated_chunks, (f16(2, 4, 6, 64), *(t.half() for t in ROPE)), ["npu_rotary_mul"]),
    "rotary_halves": (
        lambda x, c, s: rotated_parts(*x.chunk(2, -1), c[..., :32], s[..., :32]),
        (bf16(2, 4, 6, 64), *HALF_ROPE), ["npu_rotary_mul"],
    ),
    "rotary_halves of pairs": (
        lambda x, c, s: rotated_parts(x[..., ::2], x[..., 1::2], c[..., :32], s[..., :32]),
        (bf16(2, 4, 6, 64), *HALF_ROPE), ["npu_interleave_rope"],
    ),
    "attention": (
        attention,
        (bf16(2, 6, 4, 64) / 8, bf16(2, 6, 2, 64) / 8, bf16(2, 6, 2, 64), *HALF_ROPE),
        ["npu_rotary_mul", "npu_rotary_mul", "npu_fused_infer_attention_score"],
    ),
    "attention that inference does not support": (
        attention,
        (f32(2, 6, 4, 64) / 8, f32(2, 6, 2, 64) / 8, f32(2, 6, 2, 64), *ROPE),
        ["npu_rotary_mul", "npu_rotary_mul", "npu_fusion_attention"],
    ),
    "attention over a cache": (
        cached_attention,
        (bf16(2, 4, 6, 64) / 8, bf16(2, 2, 16, 64) / 8, bf16(2, 2, 16, 64)),
        ["npu_fused_infer_attention_score"],
    ),
    "merged_products of heads": (
        merged_heads,
        (bf16(2, 6, 32), i8(512, 32), f32(512).abs() / 64, f32(512)),
        ["npu_dynamic_quant", "npu_quant_matmul"],
    ),
    "merged_products without heads": (
        merged_without_heads,
        (bf16(6, 32), i8(64, 32), f32(64).abs() / 64),
        ["npu_dynamic_quant", "npu_quant_matmul"],
    ),
    "dequant_swiglu_quant": (
        merged_mlp,
        (bf16(6, 32), i8(128, 32), f32(128).abs() / 64),
        ["npu_dynamic_quant", "npu_quant_matmul", "npu_dequant_swiglu_quant"],
    ),
    "sink_attention": (sink_attention, SINK, ["npu_fused_infer_attention_score_v2"]),
    "attention of normalised heads": (
        normalised_attention,
        (bf16(2, 6, 4, 64) / 8, bf16(2, 6, 4, 64) / 8, bf16(2, 6, 4, 64), bf16(64) / 8),
        ["npu_rms_norm", "npu_rms_norm", "npu_fused_infer_attention_score"],
    ),
    "cache_update": (
        updated, (bf16(2, 4, 16, 64), bf16(2, 4, 3, 64), torch.tensor([5])), ["scatter_update"]
    ),
    "cache_update of one batch": (
        updated, (i8(1, 4, 16, 64), i8(1, 4, 3, 64), torch.tensor(5)), ["scatter_update"]
    ),
    "cache_update of one position": (
        lambda cache, x, index: cache.index_copy(1, index, x),
        (f32(2, 16, 3), f32(2, 1, 3), torch.tensor([5])), ["scatter_update"],
    ),
    "row_views": (
        lambda x: x.relu().view(2, -1, 32).view(-1, 32) + 1, (bf16(6, 32),), []
    ),
    "joined_parts": (joined, (bf16(2, 4, 6, 32), bf16(2, 4, 6, 16)), []),
    "attention of parts": (
        latent_attention,
        (bf16(2, 4, 6, 192) / 8, bf16(2, 4, 16, 192) / 8, bf16(2, 4, 16, 128)),
        ["npu_fused_infer_attention_score"],
    ),
    "token_heads": (token_heads, (bf16(3, 512), bf16(64)), ["npu_rms_norm"]),
    "clipped_swiglu": (
        lambda x: clipped_gate(x[..., ::2], x[..., 1::2]), (bf16(6, 64) * 4,), ["npu_clipped_swiglu"]
    ),
    "clipped_swiglu of halves": (lambda x: clipped_gate(*x.chunk(2, -1)), (f16(6, 64) * 4,), ["npu_clipped_swiglu"]),
    "grouped_experts": (
        experts_of_rows, EXPERTS,
        ["npu_moe_init_routing_v2", "npu_grouped_matmul", "npu_grouped_matmul", "npu_moe_finalize_routing"],
    ),
    "swiglu": (gated, (bf16(6, 64),), ["npu_swiglu"]),
    "geglu": (lambda x: gelu(x[..., :32]) * x[..., 32:], (bf16(6, 64),), ["npu_geglu"]),
    "geglu by tanh": (
        lambda x: x[..., 32:] * gelu(x[..., :32], approximate="tanh"), (f16(6, 64),), ["npu_geglu"]
    ),
    "moe_gating_top_k": (routed, (bf16(6, 16),), ["npu_moe_gating_top_k"]),
    "moe_gating_top_k without renormalising": (
        routed_without_renormalising, (bf16(6, 16),), ["npu_moe_gating_top_k"]
    ),
    "moe_gating_top_k of logits": (routed_by_logits, (f32(6, 16),), ["npu_moe_gating_top_k"]),
    "moe_gating_top_k of groups": (routed_by_groups, (f32(6, 16), f32(16) / 8), ["npu_moe_gating_top_k"]),
    "pointwise_rows": (gated_rows, (bf16(6, 32), bf16(6, 32)), ["npu_dynamic_quant"]),
}  # fmt: skip


def traced(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> GraphModule:
    graph: GraphModule = make_fx(function, tracing_mode="fake")(*inputs)
    graph.graph.eliminate_dead_code()
    return graph


def npu_operators(graph: GraphModule) -> list[str]:
    return [node.target._opname for node in graph.graph.nodes if getattr(node.target, "namespace", "") == "npu"]


def fused(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> tuple[GraphModule, FusionReport]:
    graph = traced(function, inputs)
    return graph, fusions.fuse(graph)


def fused_with_dynamic_rows(
    function: Callable[..., Any], inputs: tuple[Tensor, ...]
) -> tuple[Callable[..., Any], list[str], FusionReport]:
    """The compiled function, whose first sizes are dynamic, its npu operators, and the report."""
    seen: list[tuple[list[str], FusionReport]] = []

    def compile_forward(gm: GraphModule, _: Any) -> Any:
        gm.graph.eliminate_dead_code()
        report = fusions.fuse(gm)
        seen.append((npu_operators(gm), report))
        return make_boxed_func(gm.forward)

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=aot_autograd(fw_compiler=compile_forward), fullgraph=True)
    for tensor in inputs:
        if tensor.dtype == torch.int8:  # a weight
            continue
        for dim in range(tensor.dim() - 1):
            if tensor.size(dim) > 1 and (tensor.dim() != 4 or dim != HEADS):
                torch._dynamo.maybe_mark_dynamic(tensor, dim)
    compiled(*inputs)
    return compiled, *seen[0]


def tensors(results: Any) -> list[Tensor]:
    return [results] if isinstance(results, Tensor) else list(results)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUSED)
def test_fused_graph_is_within_the_bound_of_the_function(name: str, dynamic: bool) -> None:
    function, inputs, operators = FUSED[name]
    inputs = tuple(tensor.npu() for tensor in inputs)
    if dynamic:
        graph, called, report = fused_with_dynamic_rows(function, inputs)
    else:
        graph, report = fused(function, inputs)
        called = npu_operators(graph)
    assert called == operators
    assert report.fused
    assert report.calls_after <= report.calls_before or operators == ["scatter_update"]  # with views of the start
    bound = max(FUSIONS[finding.fusion].bound for finding in report.fused)
    for result, plain in zip(tensors(graph(*inputs)), tensors(function(*inputs)), strict=True):
        assert (result.shape, result.dtype) == (plain.shape, plain.dtype)
        difference = (result.double() - plain.double()).abs().max().item()
        largest = math.ceil(bound * 127) if plain.dtype == torch.int8 else bound * plain.double().abs().max().item()
        assert difference <= largest


def read_twice(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    y = norm(x + residual, weight)
    return *torch_npu.npu_dynamic_quant(y), y @ y.mT


def overwritten(x: Tensor, weight: Tensor) -> Tensor:
    y = norm(x, weight)
    x.add_(1)
    return y


def overwritten_by_out(x: Tensor, weight: Tensor) -> Tensor:
    y = norm(x, weight)
    torch.add(x, 1, out=x)
    return y


# The function, its inputs, the fusion that does not apply, and the reason.
NOT_FUSED: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], str, str]] = {
    "two readers": (
        read_twice, (bf16(6, 32), bf16(6, 32), bf16(32)), "add_rms_norm_dynamic_quant", "result is also read by"
    ),
    "written memory": (overwritten, (bf16(6, 32), bf16(32)), "rms_norm", "the graph writes to the memory of x_1"),
    "written by out=": (
        overwritten_by_out, (bf16(6, 32), bf16(32)), "rms_norm", "the graph writes to the memory of x_1"
    ),
    "one scale": (
        statically_quantised_norm, (bf16(6, 32), bf16(6, 32), bf16(32), bf16(1)), "add_rms_norm_quant", "one scale"
    ),
    "no rows": (
        lambda x, y, w: norm(x + y, w), (bf16(2, 0, 32), bf16(2, 0, 32), bf16(32)), "add_rms_norm", "there are no rows"
    ),
    "weight of another size": (
        lambda x, w: norm(x, w), (bf16(6, 32), bf16(1)), "rms_norm", "gamma"
    ),
    "separate linears": (
        lambda gate, up: torch.nn.functional.silu(gate) * up, (bf16(6, 32), bf16(6, 32)), "swiglu", "halves of one"
    ),
    "experts of other groups": (
        lambda x, bias: weights_of_groups(x, bias, 0.0), (f32(6, 16), f32(16)), "moe_gating_top_k", "may be chosen"
    ),
    "sink and a mask that only lowers scores": (
        lambda *inputs: masked_sink_attention(*inputs, -2.0), SINK, "sink_attention", "other values than 0"
    ),
    "sink of float16": (
        lambda *inputs: masked_sink_attention(*inputs, float("-inf")),
        (*(tensor.half() for tensor in SINK[:4]), SINK[4]), "sink_attention", "learnable_sink must be",
    ),
    "positions that may be apart": (
        lambda cache, x, index: cache.index_copy(2, index, x),
        (bf16(2, 4, 16, 64), bf16(2, 4, 2, 64), torch.tensor([5, 3])), "cache_update", "not known to be neighbours",
    ),
    "every other position": (
        lambda cache, x, start: cache.index_copy(2, torch.arange(0, 4, 2, device=x.device) + start, x),
        (bf16(2, 4, 16, 64), bf16(2, 4, 2, 64), torch.tensor(5)), "cache_update", "not known to be neighbours",
    ),
    "positions of the batch": (
        lambda cache, x: cache.index_copy(0, torch.arange(2, device=x.device) + 1, x),
        (bf16(4, 16), bf16(2, 16)), "cache_update", "the batch",
    ),
    "a cache of bool": (
        lambda cache, x, index: cache.index_copy(1, index, x),
        (bf16(2, 4) > 0, bf16(2, 1) > 0, torch.tensor([3])), "cache_update", "input must be",
    ),
    "every other channel": (
        lambda x: torch.nn.functional.silu(x[..., ::2]) * x[..., 32:], (bf16(6, 64),), "swiglu", "not the first half"
    ),
    "separate weights": (
        lambda x, a, b, s, t: (product(x, a, s, t), product(x, b, s, t)),
        (i8(6, 32), i8(16, 32), i8(16, 32), f32(16), f32(6)), "merged_products", "merge_linears_ joins them",
    ),
    "part of a merged weight": (
        lambda x, w, s, t: (product(x, w[:16], s[:16], t), product(x, w[16:32], s[16:32], t)),
        (i8(6, 32), i8(48, 32), f32(48), f32(6)), "merged_products", "not all that the merged weight has",
    ),
    "scales in another order": (
        lambda x, w, s, t: (product(x, w[:16], s[16:], t), product(x, w[16:], s[:16], t)),
        (i8(6, 32), i8(32, 32), f32(32), f32(6)), "merged_products", "scale of the products is not one tensor",
    ),
    "biases of some": (
        lambda x, w, s, t: (product(x, w[:16], s[:16], t, s[:16]), product(x, w[16:], s[16:], t)),
        (i8(6, 32), i8(32, 32), f32(32), f32(6)), "merged_products", "bias of the products is not one tensor",
    ),
    "product that is also read": (
        lambda x, w, s, t: (y := product(x, w, s, t), *torch_npu.npu_dynamic_quant(torch_npu.npu_swiglu(y))),
        (i8(6, 32), i8(64, 32), f32(64), f32(6)), "dequant_swiglu_quant", "also read by",
    ),
    "softmax that is read": (
        lambda q, k, v: torch_npu.npu_fusion_attention(q, k, v, 4, "BNSD")[:2],
        (bf16(2, 4, 6, 64), bf16(2, 4, 6, 64), bf16(2, 4, 6, 64)), "infer_attention", "as training does",
    ),
    "mean over rows": (
        lambda x, w: x * torch.rsqrt(x.pow(2).mean(0, keepdim=True) + 1e-6) * w,
        (f32(6, 32), f32(32)), "rms_norm", "not over the last one",
    ),
    "thirds instead of halves": (
        lambda x, c, s: x * c + torch.cat((-x[..., 16:], x[..., :16]), -1) * s,
        (bf16(2, 4, 6, 48), bf16(1, 1, 6, 48), bf16(1, 1, 6, 48)), "rotary_mul", "not the halves of 48",
    ),
    "pairs to halves of 128 channels": (
        lambda x, c, s: rotated_parts(x[..., ::2], x[..., 1::2], c, s),
        (bf16(2, 4, 6, 128), *HALF_ROPE), "rotary_halves", "x.size(3) must equal 64",
    ),
    "parts of thirds": (
        lambda x, c, s: rotated_parts(x[..., :64], x[..., 64:128], c, s),
        (bf16(2, 4, 6, 192), *HALF_ROPE), "rotary_halves", "neither the halves nor the pairs",
    ),
    "two limits": (
        lambda x: clipped_gate(x[..., ::2], x[..., 1::2], 6.0), (bf16(6, 64),), "clipped_swiglu", "one limit for both"
    ),
    "clipped pairs of another order": (
        lambda x: clipped_gate(x[..., 1::2], x[..., ::2]), (bf16(6, 64),), "clipped_swiglu", "nor the even and odd"
    ),
    "parts that leave a gap": (
        lambda x, y: copied_into(x, y, 40)[..., [0, 50]], (bf16(2, 4, 6, 32), bf16(2, 4, 6, 16)),
        "joined_parts", "not neighbours",
    ),
    "rows of one expert each": (
        lambda *inputs: weighted_rows(*inputs, 3), EXPERTS, "grouped_experts", "not by the 2 experts of a token"
    ),
    "heads read before they are transposed": (
        lambda x: [heads.transpose(1, 2) * heads.sum() for heads in x.view(3, 1, 4, 64).split_with_sizes([2, 2], 2)],
        (bf16(3, 256),), "token_heads", "read before they are transposed",
    ),
    "too wide to rotate": (
        rotated, (bf16(1, 1, 2, 1024), bf16(1, 1, 2, 1024), bf16(1, 1, 2, 1024)), "rotary_mul", "at most 896",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_FUSED)
def test_subgraph_that_must_stay_is_reported_with_the_reason(name: str) -> None:
    function, inputs, fusion, reason = NOT_FUSED[name]
    inputs = tuple(tensor.npu() for tensor in inputs)
    plain = tensors(function(*(tensor.clone() for tensor in inputs)))
    graph, report = fused(function, inputs)
    assert [finding.fusion for finding in report.not_fused if reason in finding.reason] == [fusion]
    assert f"npu_{fusion}" not in npu_operators(graph)
    for result, expected in zip(tensors(graph(*inputs)), plain, strict=True):
        torch.testing.assert_close(result, expected, rtol=2**-6, atol=2**-6)


def test_selection_is_checked() -> None:
    with pytest.raises(ValueError, match=r"GRAPH_QUANT_FUSE|graph_quant.fusions.use: must be on, off or some of"):
        fusions.use("norms").__enter__()


@pytest.mark.parametrize("backend", ["npu", "npugraph_ex"])
def test_backends_fuse_what_is_selected(backend: str) -> None:
    """The source of the fused operator is the line of the function, and without a selection nothing changes."""
    inputs = tuple(tensor.npu() for tensor in (bf16(2, 6, 32), bf16(2, 6, 32), bf16(32)))
    eager = quantised_norm(*inputs)
    for selection, bound in (("off", 0), ("on", 1)):
        torch._dynamo.reset()
        with fusions.use(selection), fusions.collect() as reports:
            results = torch.compile(quantised_norm, backend=backend, fullgraph=True)(*inputs)
        assert [finding.fusion for report in reports for finding in report.fused][-1:] == (
            ["add_rms_norm_dynamic_quant"] if bound else []
        )
        assert all(torch.equal(one, other) for one, other in zip(results[1:2], results[3:4], strict=True))
        assert (
            max((one.double() - other.double()).abs().max() for one, other in zip(results, eager, strict=True)) <= bound
        )


@pytest.mark.parametrize("backend", ["npu", "npugraph_ex"])
def test_cache_is_updated_in_place(backend: str) -> None:
    """The written cache and length are inputs; the attention of the step reads what it writes."""
    prompt, token = ((torch.randn(2, 4, count, 64) / 8).bfloat16().npu() for count in (3, 1))
    states = [(torch.zeros(2, 4, 16, 64).bfloat16().npu(), torch.zeros((), dtype=torch.long).npu()) for _ in range(2)]
    torch._dynamo.reset()
    compiled = torch.compile(decode_step, backend=backend, fullgraph=True, dynamic=False)
    with fusions.use("on"), fusions.collect() as reports:
        for x in (prompt, token, token):
            result, expected = compiled(*states[0], x), decode_step(*states[1], x)
            torch.testing.assert_close(result, expected, rtol=2**-6, atol=2**-6)
            assert all(torch.equal(one, other) for one, other in zip(*states, strict=True))
    assert [[finding.fusion for finding in report.fused] for report in reports] == [
        ["cache_update", "infer_attention"]
    ] * 2


def test_rows_of_unknown_number_stay_where_the_fused_operator_refuses_none() -> None:
    """An unbacked size may be 0 at run time, unlike a backed dynamic size."""
    x, weight = bf16(6, 32).npu(), bf16(32).npu()
    torch._dynamo.reset()
    with fusions.use("on"), fusions.collect() as reports:
        compiled = torch.compile(lambda x, weight: norm(x * 2 + x, weight), backend="npu", fullgraph=True)
        for count in (6, 0):
            rows = x[:count]
            torch._dynamo.decorators.mark_unbacked(rows, 0)
            assert compiled(rows, weight).shape == (count, 32)
    (report,) = reports
    assert [(finding.fusion, finding.reason[:15]) for finding in report.not_fused] == [
        ("add_rms_norm", "there may be no")
    ]


class Norm(torch.nn.Module):
    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = torch.nn.Parameter(torch.ones(32, dtype=BF16), requires_grad=False)

    def forward(self, x: Tensor, factor: float) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return self.weight * wide.to(x.dtype) * factor


@pytest.mark.parametrize("backend", ["npu", "npugraph_ex"])
def test_floats_of_modules_are_constants_until_they_change_too_often(backend: str) -> None:
    """With dynamic=True. The argument stays an input: it changes without a new graph."""
    module, x = Norm(0.5).npu(), bf16(6, 32).npu()
    module_numbers._seen.clear()
    torch._dynamo.reset()
    compiled = torch.compile(module, backend=backend, dynamic=True, fullgraph=True)
    with fusions.use("on"), fusions.collect() as reports:
        for count, epsilon in enumerate((0.5, 0.25, 0.125, 4.0, 2.0, 8.0), 1):
            module.epsilon = epsilon
            for factor in (1.0, 2.0):
                torch.testing.assert_close(compiled(x, factor), module(x, factor), rtol=2**-7, atol=2**-7)
            assert len(reports) == min(count, 5)
    assert [len(report.fused) for report in reports] == [1, 1, 1, 1, 0]
    assert "the epsilon is an input" in reports[-1].not_fused[0].reason

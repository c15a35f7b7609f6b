"""A decoder as deployments write it: quantised from norm to experts, on fused operators and a paged int8 cache.

Norms return int8 (npu_rms_norm_quant, npu_add_rms_norm_quant), linears are int8 (npu_quant_matmul), npu_mrope applies
rotary embeddings, keys and values are quantised and written to their slots (npu_quantize, npu_scatter_pa_kv_cache),
attention reads them there (npu_fused_infer_attention_score), experts are chosen, routed, multiplied and combined in
int8 (npu_moe_*, npu_grouped_matmul, npu_dequant_swiglu_quant). Prefill and decode are one graph each, for every length.

The results are compared with the same model in plain torch. Up to the first attention every step is exact, so the
first layer's cache must be bitwise equal. Attention rounds its weights to bfloat16, an error of 2**-8, which may change
the rounding of later int8 values: a step is 1/127 of the largest value, and a layer rounds four times. Logits must be
within BOUND of the largest, except for tokens whose gate is nearly tied and may choose another expert.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import graph_quant  # noqa: F401  (before torch: it makes torch_npu loadable)
import torch
import torch_npu
import torchair
from torch import Tensor
from torch.nn.functional import silu

LAYERS, HIDDEN, HEADS, KV_HEADS, CHANNELS, EXPERTS, CHOSEN, INNER, VOCABULARY = 2, 128, 4, 2, 64, 4, 2, 64, 256
BLOCK, BLOCKS, EPSILON = 32, 4, 1e-6
LENGTHS = (7, 2, 3, 8, 12, 16, 24, 33, 48, 64)
BOUND = 2 * 4 / 127
TIED = 2**-5  # a gate whose last chosen and best other score are closer than that
NORM_SCALE = 1 / 32  # what a normalised value is divided by to become int8
CAUSAL = torch.ones(2048, 2048, dtype=torch.bool).triu(1)


def int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """``weight`` (..., in, out) in int8, and the scale of each column."""
    scale = weight.abs().amax(-2) / 127
    return (weight / scale.unsqueeze(-2)).round().to(torch.int8), scale


@dataclass
class Layer:
    """The weights of a layer; scales beside the int8 matrices they belong to."""

    norm: Tensor
    post_norm: Tensor
    qkv: tuple[Tensor, Tensor]
    out: tuple[Tensor, Tensor]
    gate: Tensor
    up: tuple[Tensor, Tensor]
    down: tuple[Tensor, Tensor]
    kv_scale: Tensor


@dataclass
class Weights:
    """All weights, and the cosines and sines of every position."""

    layers: list[Layer]
    embedding: Tensor
    norm: Tensor
    head: Tensor
    positions: Tensor

    def on(self, device: str) -> Weights:
        """The same on a device."""
        return _moved(self, device)  # type: ignore[no-any-return]


def _moved(value: Any, device: str) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(item, device) for item in value)
    return type(value)(**{name: _moved(item, device) for name, item in vars(value).items()})


def make_weights() -> Weights:
    """Return random weights."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    def layer() -> Layer:
        width = (HEADS + 2 * KV_HEADS) * CHANNELS
        out, inner = int8(draw(HEADS * CHANNELS, HIDDEN)), int8(draw(EXPERTS, INNER, HIDDEN))
        return Layer(
            *((draw(HIDDEN) / 8 + 1).bfloat16() for _ in range(2)),
            int8(draw(HIDDEN, width) / HIDDEN**0.5),
            (out[0], (out[1] / 11).bfloat16()),
            draw(HIDDEN, EXPERTS) / HIDDEN**0.5,
            int8(draw(EXPERTS, HIDDEN, 2 * INNER) / HIDDEN**0.5),
            (inner[0], (inner[1] / 8).bfloat16()),
            torch.full((2, KV_HEADS * CHANNELS), 1 / 32, dtype=torch.bfloat16),
        )

    angles = torch.arange(BLOCK * BLOCKS)[:, None] / 10000 ** (torch.arange(CHANNELS // 2) / (CHANNELS // 2))
    positions = torch.cat([angles.cos(), angles.sin()], -1).bfloat16()
    layers = [layer() for _ in range(LAYERS)]
    return Weights(
        layers, draw(VOCABULARY, HIDDEN).bfloat16(), torch.ones(HIDDEN).bfloat16(), draw(HIDDEN, VOCABULARY), positions
    )


Cache = list[tuple[Tensor, Tensor]]
Attend = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def make_cache(device: str) -> Cache:
    """Empty pages of keys and of values, for each layer."""
    shape = (BLOCKS, BLOCK, KV_HEADS, CHANNELS)
    return [tuple(torch.zeros(shape, dtype=torch.int8, device=device) for _ in range(2)) for _ in range(LAYERS)]  # type: ignore[misc]


def prefill_attention(q: Tensor, k: Tensor, v: Tensor, *_: Tensor) -> Tensor:
    """Attention of a prompt over itself."""
    tokens, mask = q.size(0), CAUSAL.to(q.device)
    heads = (x.unflatten(-1, (-1, CHANNELS)) for x in (q, k, v))
    out, _ = torch_npu.npu_fused_infer_attention_score(
        *heads,
        num_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        input_layout="TND",
        scale=CHANNELS**-0.5,
        atten_mask=mask,
        sparse_mode=3,
        actual_seq_lengths=[tokens],
        actual_seq_lengths_kv=[tokens],
    )
    return out.flatten(1)  # type: ignore[no-any-return]


def decode_attention(length: int, table: Tensor) -> Attend:
    """Attention of one token over the ``length`` tokens in its pages."""

    def attend(q: Tensor, _k: Tensor, _v: Tensor, key_cache: Tensor, value_cache: Tensor, kv_scale: Tensor) -> Tensor:
        out, _ = torch_npu.npu_fused_infer_attention_score(
            q.unsqueeze(1),
            key_cache.flatten(2),
            value_cache.flatten(2),
            num_heads=HEADS,
            num_key_value_heads=KV_HEADS,
            input_layout="BSH",
            scale=CHANNELS**-0.5,
            block_table=table,
            block_size=BLOCK,
            actual_seq_lengths_kv=[length],
            key_antiquant_scale=kv_scale[0],
            value_antiquant_scale=kv_scale[1],
        )
        return out.squeeze(1)  # type: ignore[no-any-return]

    return attend


def experts(layer: Layer, x: Tensor) -> Tensor:
    """Return the combined result of the chosen experts for each token."""
    scores, chosen, _ = torch_npu.npu_moe_gating_top_k_softmax(x.float() @ layer.gate, k=CHOSEN)
    rows, row_idx, tokens, scales = torch_npu.npu_moe_init_routing_v2(
        x, chosen, expert_num=EXPERTS, expert_tokens_num_type=1, expert_tokens_num_flag=True, quant_mode=1
    )
    grouped = {"group_list": tokens, "split_item": 3, "group_type": 0, "group_list_type": 1}
    (up,) = torch_npu.npu_grouped_matmul([rows], [layer.up[0]], output_dtype=torch.int32, **grouped)
    inner, inner_scales = torch_npu.npu_dequant_swiglu_quant(
        up, weight_scale=layer.up[1], activation_scale=scales, group_index=tokens, activate_left=True, quant_mode=1
    )
    (down,) = torch_npu.npu_grouped_matmul(
        [inner],
        [layer.down[0]],
        scale=[layer.down[1]],
        per_token_scale=[inner_scales],
        output_dtype=torch.bfloat16,
        **grouped,
    )
    return torch_npu.npu_moe_finalize_routing(  # type: ignore[no-any-return]
        down, None, None, None, scores.to(down.dtype), row_idx, None, drop_pad_mode=2
    )


def forward(weights: Weights, cache: Cache, tokens: Tensor, positions: Tensor, slots: Tensor, attend: Attend) -> Tensor:
    """The logits of ``tokens``, whose keys and values are written to ``slots``."""
    x, residual = weights.embedding[tokens], None
    norm_scale = torch.full((1,), NORM_SCALE, dtype=x.dtype, device=x.device)
    norm_offset = torch.zeros(1, dtype=torch.int8, device=x.device)
    channel_scales = torch.full((HIDDEN,), NORM_SCALE, device=x.device)
    for layer, (key_cache, value_cache) in zip(weights.layers, cache, strict=True):
        if residual is None:
            residual = x
            normed = torch_npu.npu_rms_norm_quant(
                x, layer.norm, torch.zeros_like(layer.norm), norm_scale, norm_offset, EPSILON
            )
        else:
            normed, _, residual = torch_npu.npu_add_rms_norm_quant(
                x, residual, layer.norm, channel_scales, None, epsilon=EPSILON
            )
        qkv = torch_npu.npu_quant_matmul(normed, layer.qkv[0], layer.qkv[1] * NORM_SCALE, output_dtype=torch.bfloat16)
        q, k, v = qkv.split([HEADS * CHANNELS, KV_HEADS * CHANNELS, KV_HEADS * CHANNELS], -1)
        q, k = torch_npu.npu_mrope(positions, q, k, weights.positions, CHANNELS)
        kept = [
            torch_npu.npu_quantize(rows, scale.reciprocal(), None, torch.qint8, -1, False).unflatten(
                -1, (KV_HEADS, CHANNELS)
            )
            for rows, scale in zip((k, v), layer.kv_scale.unbind(), strict=True)
        ]
        torch_npu.npu_scatter_pa_kv_cache(*kept, key_cache, value_cache, slots, cache_mode="Norm")
        attended, scales = torch_npu.npu_dynamic_quant(attend(q, k, v, key_cache, value_cache, layer.kv_scale))
        out = torch_npu.npu_quant_matmul(
            attended, layer.out[0], layer.out[1], pertoken_scale=scales, output_dtype=torch.bfloat16
        )
        normed, _, residual = torch_npu.npu_add_rms_norm(out, residual, layer.post_norm, EPSILON)
        x = experts(layer, normed)
    normed, _, _ = torch_npu.npu_add_rms_norm(x, residual, weights.norm, EPSILON)
    return normed.float() @ weights.head


def prefill(weights: Weights, cache: Cache, tokens: Tensor, positions: Tensor, slots: Tensor) -> Tensor:
    """The logits of a prompt."""
    return forward(weights, cache, tokens, positions, slots, prefill_attention)


def decode(
    weights: Weights, cache: Cache, token: Tensor, position: Tensor, slot: Tensor, table: Tensor, length: int
) -> Tensor:
    """The logits of the token that follows ``length - 1`` others."""
    return forward(weights, cache, token, position, slot, decode_attention(length, table))


class Plain:
    """The same model in plain torch, on the CPU."""

    def __init__(self, weights: Weights) -> None:
        self.weights, self.cache, self.tied = weights, make_cache("cpu"), torch.zeros(0, dtype=torch.bool)

    def forward(self, tokens: Tensor, start: int) -> Tensor:
        """The logits of ``tokens``, which stand at positions and slots from ``start`` on."""
        at = torch.arange(start, start + tokens.numel())
        x, residual = self.weights.embedding[tokens], None
        self.tied = torch.zeros(tokens.numel(), dtype=torch.bool)
        for layer, (key_cache, value_cache) in zip(self.weights.layers, self.cache, strict=True):
            total = x.float() if residual is None else x.float() + residual.float()
            steps = total * inverse_rms(total) * layer.norm.float() / NORM_SCALE
            whole = to_int8(steps.half().float() if residual is None else steps)  # the first kernel rounds to float16
            residual = total.bfloat16()
            qkv = (product(whole, layer.qkv[0]) * (layer.qkv[1] * NORM_SCALE)).bfloat16()
            q, k, v = (
                part.unflatten(-1, (-1, CHANNELS))
                for part in qkv.split([HEADS * CHANNELS, *[KV_HEADS * CHANNELS] * 2], -1)
            )
            q, k = (embedded(part, self.weights.positions[at]) for part in (q, k))
            scales = layer.kv_scale.float().unflatten(-1, (KV_HEADS, CHANNELS))
            key_cache.flatten(0, 1)[at], value_cache.flatten(0, 1)[at] = to_int8(k / scales[0]), to_int8(v / scales[1])
            if start:  # a decode step sees what the cache keeps, a prompt itself
                k, v = (
                    cache.flatten(0, 1)[: start + 1] * scale
                    for cache, scale in zip((key_cache, value_cache), scales, strict=True)
                )
            whole, scale = by_row(attention(q.float(), k.float(), v.float()).bfloat16().float())
            out = (product(whole, layer.out[0]) * layer.out[1].float() * scale).bfloat16()
            total = out.float() + residual.float()
            residual = total.bfloat16()
            normed = (total * inverse_rms(total)).bfloat16() * layer.post_norm
            x = self.experts(layer, normed)
        total = x.float() + residual.float()  # type: ignore[union-attr]
        return ((total * inverse_rms(total)).bfloat16() * self.weights.norm).float() @ self.weights.head

    def experts(self, layer: Layer, x: Tensor) -> Tensor:
        """Compute the experts token by token."""
        logits = x.float() @ layer.gate
        best = logits.topk(CHOSEN + 1).values
        self.tied |= best[:, -2] - best[:, -1] < TIED
        scores, chosen = logits.softmax(-1).topk(CHOSEN)
        out = torch.zeros(x.shape)
        for token, (row, of) in enumerate(zip(x.float(), chosen.tolist(), strict=True)):
            whole, scale = by_row(row)
            for choice, expert in enumerate(of):
                up = product(whole, layer.up[0][expert]) * layer.up[1][expert] * scale
                inner, inner_scale = by_row(silu(up[:INNER]) * up[INNER:])
                down = product(inner, layer.down[0][expert]) * layer.down[1][expert].float() * inner_scale
                out[token] += scores[token, choice].bfloat16().float() * down.bfloat16().float()
        return out.bfloat16()


def inverse_rms(x: Tensor) -> Tensor:
    return ((x * x).sum(-1, keepdim=True) / HIDDEN + EPSILON).rsqrt()


def to_int8(x: Tensor) -> Tensor:
    return x.round().clamp(-128, 127).to(torch.int8)


def by_row(x: Tensor) -> tuple[Tensor, Tensor]:
    """int8 rows, and the scale of each."""
    largest = x.abs().amax(-1, keepdim=True)
    return to_int8(x * (127 / largest)), largest / 127


def product(x: Tensor, weight: Tensor) -> Tensor:
    """Return the exact product of int8 matrices."""
    return (x.int() @ weight.int()).float()


def embedded(x: Tensor, positions: Tensor) -> Tensor:
    cos, sin = positions.float()[:, None].chunk(2, -1)
    one, two = x.float().chunk(2, -1)
    return torch.cat([one * cos - two * sin, two * cos + one * sin], -1).bfloat16()


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of the last tokens over the whole sequence."""
    k, v = (x.repeat_interleave(HEADS // KV_HEADS, 1).transpose(0, 1) for x in (k, v))
    scores = q.transpose(0, 1) @ k.mT * CHANNELS**-0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(scores.size(-1) - scores.size(-2) + 1)
    return (scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v).transpose(0, 1).flatten(1)


@dataclass
class Run:
    """One length: whether graphs equal eager mode, the first cache equals plain torch, and the logits' errors."""

    length: int
    graph_is_eager: bool
    cache_is_plain: bool
    prefill_error: float
    decode_error: float

    @property
    def is_right(self) -> bool:
        return self.graph_is_eager and self.cache_is_plain and max(self.prefill_error, self.decode_error) <= BOUND


class Deployment:
    """The model on the NPU, prefill and decode compiled to a graph each; ``graphs`` counts them."""

    def __init__(self, weights: Weights) -> None:
        self.plain_weights, self.weights, self.graphs = weights, static(weights.on("npu:0")), 0
        self.table = static(torch.arange(BLOCKS, dtype=torch.int32)[None].npu())
        backend = torchair.get_npu_backend()

        def counting(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
            graph = backend(module, inputs)
            self.graphs += 1
            return graph

        torch._dynamo.reset()
        compiled = {"fullgraph": True, "dynamic": True, "backend": counting}
        self.prefill, self.decode = torch.compile(prefill, **compiled), torch.compile(decode, **compiled)

    @torch.no_grad()
    def compare(self, length: int) -> Run:
        """A prompt of a length, and the token that follows it: eagerly, by graphs, and in plain torch."""
        tokens = torch.randint(VOCABULARY, (length,), generator=torch.Generator().manual_seed(length))
        at, plain = torch.arange(length + 1), Plain(self.plain_weights)
        wanted = plain.forward(tokens, 0)
        decided = ~plain.tied
        following = wanted[-1:].argmax(-1)
        wanted_next = plain.forward(following, length)
        first = tokens.npu(), at[:-1].npu(), at[:-1].int().npu()
        then = following.npu(), at[-1:].npu(), at[-1:].int().npu(), self.table, length + 1
        runs = []
        for fill, step in ((prefill, decode), (self.prefill, self.decode)):
            cache = static(make_cache("npu:0"))
            runs.append((fill(self.weights, cache, *first), step(self.weights, cache, *then), *tensors(cache)))
        outputs = [tensor.cpu() for tensor in runs[1]]
        errors = (
            relative_error(outputs[0][decided], wanted[decided]),
            relative_error(outputs[1][~plain.tied], wanted_next[~plain.tied]),
        )
        same = all(torch.equal(one, other) for one, other in zip(*runs, strict=True))
        as_plain = all(torch.equal(one, other) for one, other in zip(outputs[2:4], plain.cache[0], strict=True))
        return Run(length, same, as_plain, *errors)


def relative_error(actual: Tensor, wanted: Tensor) -> float:
    """Return the maximum error relative to the largest expected value."""
    return float((actual - wanted).abs().max() / wanted.abs().max()) if wanted.numel() else 0.0


def tensors(value: Any) -> list[Tensor]:
    """Return the tensors in weights or a cache, in order."""
    if isinstance(value, Tensor):
        return [value]
    items = value if isinstance(value, (list, tuple)) else vars(value).values()
    return [tensor for item in items for tensor in tensors(item)]


def static(value: Any) -> Any:
    """Return ``value`` with its sizes marked as static."""
    for tensor in tensors(value):
        torch._dynamo.mark_static(tensor)
    return value


def main() -> int:
    """Compare every length, and print the results."""
    deployment = Deployment(make_weights())
    runs = [deployment.compare(length) for length in LENGTHS]
    print(f"length  graph = eager  first cache = plain torch  logits off by (bound {BOUND:.3f})")
    for run in runs:
        errors = f"{run.prefill_error:.4f} {run.decode_error:.4f}"
        print(f"{run.length:6}  {run.graph_is_eager!s:13}  {run.cache_is_plain!s:25}  {errors}")
    print(f"{deployment.graphs} graphs, {deployment.graphs - 2} recompiles")
    return not (all(run.is_right for run in runs) and deployment.graphs == 2)


if __name__ == "__main__":
    raise SystemExit(main())

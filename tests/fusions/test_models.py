"""Decoders of transformers, quantised and fused: how many nodes a layer has, and how near logits are to the truth."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import pytest
import torch
import torchair
from graph_quant import dryrun, fusions, nn
from graph_quant.nn import DynamicW8A8Linear
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig, PretrainedConfig, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

TINY = {
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 256, "max_position_embeddings": 128,
}  # fmt: skip
# What a layer of a dense decoder becomes, its linears merged; Reshape launches no kernel.
DENSE = {
    "QuantBatchMatmulV3": 4, "AddRmsNormDynamicQuant": 2, "Reshape": 2, "RotaryMul": 2, "SplitV": 1,
    "FusedInferAttentionScore": 1, "DynamicQuant": 1, "DequantSwigluQuant": 1,
}  # fmt: skip
# The model, its norm, the nodes of a layer without fusions, and those with them.
MODELS: dict[str, tuple[PretrainedConfig, type[torch.nn.Module], int, dict[str, int]]] = {
    "llama": (LlamaConfig(**TINY), LlamaRMSNorm, 66, DENSE),
    "qwen3": (Qwen3Config(**TINY), Qwen3RMSNorm, 82, DENSE | {"RmsNorm": 2}),
}


class ExactLinear(torch.nn.Module):
    """A quantised linear in float64: the rows are quantised, nothing else is rounded."""

    def __init__(self, linear: DynamicW8A8Linear) -> None:
        super().__init__()
        self.weight = linear.weight.cpu().double() * linear.scale.cpu().double()[:, None]

    def forward(self, x: Tensor) -> Tensor:
        scale = x.abs().amax(-1, keepdim=True) / 127
        return (x / scale).round() * scale @ self.weight.t()


def exact_logits(model: torch.nn.Module, norm: type[torch.nn.Module], tokens: Tensor) -> Tensor:
    """The logits of the quantised model in float64; ``model`` is changed."""
    linears = {name: linear for name, linear in model.named_modules() if isinstance(linear, DynamicW8A8Linear)}
    for name, linear in linears.items():
        model.set_submodule(name, ExactLinear(linear))

    def normalise(self: torch.nn.Module, x: Tensor) -> Tensor:
        epsilon: float = self.variance_epsilon  # type: ignore[assignment]
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)  # type: ignore[operator]

    with mock.patch.object(norm, "forward", normalise):
        logits: Tensor = model.cpu().double()(tokens.cpu(), use_cache=False).logits
    return logits


def noise(logits: Tensor, exact: Tensor) -> float:
    """The noise of logits relative to their power, in dB."""
    power = (logits.cpu().double() - exact).square().sum() / exact.square().sum()
    return 10 * power.log10().item()


def layer_counts(graph: dryrun.DryGraph, layer: str) -> Counter[str]:
    assert graph.dump is not None
    types = [node.type for node in graph.dump.order if node.source and layer in node.source.module]
    return Counter(kind for kind in types if kind not in ("Data", "Const"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad
def test_layer_becomes_the_operators_of_a_deployment(name: str) -> None:
    config, norm, nodes, expected = MODELS[name]
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval().bfloat16()
    nn.quantize_(model, nn.DynamicW8A8())
    model, tokens = model.npu(), torch.arange(16).view(2, 8).npu()
    plain = model(tokens, use_cache=False).logits
    counts = []
    for selection in ("off", "on"):
        torch._dynamo.reset()
        with fusions.use(selection):
            (graph,) = dryrun.plan(model, tokens, kwargs={"use_cache": False}, dynamic=False).graphs
            counts.append(layer_counts(graph, "layers.1"))
            if selection == "off":
                nn.merge_linears_(model)
    assert counts[0].total() == nodes
    assert counts[1] == expected
    assert graph.fusions is not None
    assert not graph.fusions.not_fused
    torch._dynamo.reset()
    with fusions.use("on"):
        compiled = torch.compile(model, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=False)
        fused = compiled(tokens, use_cache=False).logits
    exact = exact_logits(model, norm, tokens)
    assert noise(fused, exact) < noise(plain, exact) + 0.5
    assert noise(fused, plain.cpu().double()) < -34

"""Decoders of transformers, quantised and fused: how many nodes a layer has, and how far logits move."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
import torchair
from graph_quant import dryrun, fusions, nn
from transformers import AutoModelForCausalLM, Qwen3Config

# What a layer of a dense decoder becomes; 83 nodes without fusions.
LAYER = {
    "QuantBatchMatmulV3": 7,
    "Reshape": 6,
    "AddRmsNormDynamicQuant": 2,
    "RmsNorm": 2,
    "RotaryMul": 2,
    "DynamicQuant": 2,
    "FlashAttentionScore": 1,
    "Swish": 1,
    "Mul": 1,
}
TINY = {
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 256, "max_position_embeddings": 128,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@torch.no_grad
def test_layer_of_qwen3_becomes_the_operators_of_a_deployment() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = AutoModelForCausalLM.from_config(Qwen3Config(**TINY)).eval().bfloat16()
    nn.quantize_(model, nn.DynamicW8A8())
    model, tokens = model.npu(), torch.arange(16).view(2, 8).npu()
    plain = model(tokens, use_cache=False).logits.double()
    with fusions.use("on"):
        dry_run = dryrun.plan(model, tokens, kwargs={"use_cache": False}, dynamic=False)
        compiled = torch.compile(model, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=False)
        logits = compiled(tokens, use_cache=False).logits.double()
    (graph,) = dry_run.graphs
    assert graph.dump is not None
    last = [node.type for node in graph.dump.order if node.source and "layers.1" in node.source.module]
    assert {kind: count for kind, count in Counter(last).items() if kind not in ("Data", "Const")} == LAYER
    assert graph.fusions is not None
    assert {finding.fusion for finding in graph.fusions.not_fused} == {"swiglu"}
    noise = (logits - plain).square().sum() / plain.square().sum()
    assert 10 * noise.log10() < -30

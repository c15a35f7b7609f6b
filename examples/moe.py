"""Mixture-of-experts decoders: Mixtral, Qwen3 and GLM-4 (in the style of DeepSeek-V3), in float and quantised.

``quantize_`` runs experts on the npu operators: tokens are copied to the rows of their experts, two grouped products
with a gated activation in between are computed on those rows, and the results of a token are added up. The third model
has groups of experts, chosen by sigmoids and a bias, and a shared expert.

If two experts are nearly tied for a token, rounding can change the choice: logits then differ from the float model by
more than rounding, in eager mode and in the graph alike.
"""

from decoders import Report, calibrate, make_model, prove, show  # isort: skip (before torch: it imports graph_quant)

import argparse
from collections.abc import Callable

import torch
from graph_quant.nn import W4A8, W4A16, DynamicW8A8, Recipe, StaticW8A8, observe, quantize_
from torch import nn
from transformers import Glm4MoeConfig, MixtralConfig, PretrainedConfig, Qwen3MoeConfig

SIZES = {
    "hidden_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_experts_per_tok": 2,
    "vocab_size": 256,
}
CONFIGS: dict[str, PretrainedConfig] = {
    "Mixtral": MixtralConfig(intermediate_size=192, num_local_experts=4, **SIZES),
    "Qwen3": Qwen3MoeConfig(moe_intermediate_size=128, num_experts=8, norm_topk_prob=True, **SIZES),
    "GLM-4, as DeepSeek-V3": Glm4MoeConfig(
        intermediate_size=256,
        moe_intermediate_size=128,
        n_routed_experts=16,
        n_shared_experts=1,
        n_group=4,
        topk_group=2,
        first_k_dense_replace=0,
        norm_topk_prob=True,
        routed_scaling_factor=2.5,
        **SIZES,
    ),
}
RECIPES: dict[str, Recipe | None] = {
    "bfloat16": None,
    "int8 by token": DynamicW8A8(),
    "int8 by calibration": StaticW8A8(smooth=0.5),
    "int4 with int8": W4A8(group_size=64),
    "int4 restored": W4A16(group_size=32),
}


def quantise_by(recipe: Recipe | None) -> Callable[[nn.Module], list[str]]:
    """Quantise experts and all linears except the last; None leaves the model unchanged."""

    def quantise(model: nn.Module) -> list[str]:
        if recipe is None:
            return []
        with observe(model) as seen:
            if isinstance(recipe, StaticW8A8):
                calibrate(model)
        return quantize_(model, recipe, lambda _, name: name != "lm_head", observations=seen)

    return quantise


def main(name: str, kind: str) -> Report:
    """Quantise, compile, compare and print."""
    report = prove(f"{name}, {kind}", make_model(CONFIGS[name], torch.bfloat16), quantise_by(RECIPES[kind]))
    show(report)
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=CONFIGS, action="append", help="which models (default: all)")
    parser.add_argument("--recipe", choices=RECIPES, action="append", help="which recipes (default: all)")
    options = parser.parse_args()
    equal = [main(name, kind).bit_equal for name in options.model or CONFIGS for kind in options.recipe or RECIPES]
    raise SystemExit(not all(equal))

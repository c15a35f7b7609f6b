"""A mixture-of-experts decoder: int8 experts with npu_group_quant, int8 attention scaled token by token.

Where two experts are nearly tied for a token, the noise of quantisation can make the router take the other one: its
logits then differ from the float model's by more than rounding, in eager mode and in the graph alike.
"""

from decoders import Report, calibrate, make_model, prove, show  # isort: skip (before torch: it imports graph_quant)

import torch
from graph_quant.nn import DynamicW8A8, GroupedW8A8, observe, quantize_
from torch import nn
from transformers import MixtralConfig

CONFIG = MixtralConfig(
    hidden_size=128,
    intermediate_size=192,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=2,
    num_local_experts=4,
    num_experts_per_tok=2,
    vocab_size=256,
    experts_implementation="eager",
)


def quantise(model: nn.Module) -> list[str]:
    """Experts with a calibrated scale each; the router, which decides between them, stays as it is."""
    with observe(model) as seen:
        calibrate(model)
    experts = quantize_(model, GroupedW8A8(), observations=seen)
    attention = quantize_(model, DynamicW8A8(), lambda _, name: "self_attn" in name)
    return experts + attention


def main() -> Report:
    """Quantises, compiles, compares and prints."""
    report = prove("Mixtral, grouped and dynamic W8A8, bfloat16", make_model(CONFIG, torch.bfloat16), quantise)
    show(report)
    return report


if __name__ == "__main__":
    raise SystemExit(not main().bit_equal)

"""A Llama-style decoder in W8A8 with activation scales by token, computed at run time."""

from decoders import Report, make_model, prove, show  # isort: skip (before torch: it imports graph_quant)

import torch
from graph_quant.nn import DynamicW8A8, quantize_
from torch import nn
from transformers import LlamaConfig

CONFIG = LlamaConfig(
    hidden_size=128,
    intermediate_size=352,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=2,
    vocab_size=256,
)


def quantise(model: nn.Module) -> list[str]:
    """Quantise all linears except the last, whose logits select the token."""
    return quantize_(model, DynamicW8A8(), lambda _, name: name != "lm_head")


def main() -> Report:
    """Quantise, compile, compare and print."""
    report = prove("Llama, dynamic W8A8, bfloat16", make_model(CONFIG, torch.bfloat16), quantise)
    show(report)
    return report


if __name__ == "__main__":
    raise SystemExit(not main().bit_equal)

"""A Qwen-style decoder, whose linears have biases, in int8 with calibrated scales, and int4 in the MLPs."""

from decoders import Report, calibrate, make_model, prove, show  # isort: skip (before torch: it imports graph_quant)

import torch
from graph_quant.nn import W4A4, StaticW8A8, observe, quantize_
from torch import nn
from transformers import Qwen2Config

CONFIG = Qwen2Config(
    hidden_size=128,
    intermediate_size=352,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=2,
    vocab_size=256,
)


def quantise(model: nn.Module) -> list[str]:
    """Quantise attention to static int8 with smoothing, the gates of the MLPs to int4, the rest to int8."""
    with observe(model) as seen:
        calibrate(model)
    int4 = quantize_(model, W4A4(), lambda _, name: name.endswith("gate_proj"))
    int8 = quantize_(model, StaticW8A8(smooth=0.5), lambda _, name: name != "lm_head", observations=seen)
    return int4 + int8


def main() -> Report:
    """Quantise, compile, compare and print."""
    report = prove("Qwen2, static W8A8 and W4A4 gates, float16", make_model(CONFIG, torch.float16), quantise)
    show(report)
    return report


if __name__ == "__main__":
    raise SystemExit(not main().bit_equal)

"""A quantised decoder layer relative to bfloat16 on the CPU, and experts relative to more experts or rows.

The layer is Llama's, of hidden size 2048 and 5632 inside, in W8A8 scaled by token; its graph runs on the host through
Inductor, and the layer in bfloat16 is compiled by Inductor as well. Where torchao is installed, its int8 linears scaled
by token are measured in the same layer. "most possible" is the limit of the
processor: the bfloat16 layer with its products at the peak speed of int8 on cached operands, without quantisation or
rescaling; and the fraction of that speed which the layer's products reach.

Experts are called eagerly. Their work depends on the number of rows: with eight times as many experts and an eighth of
the rows each, the multiplications are the same, and more weights are read.

    python benchmarks/run.py decoder
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from graph_quant.host.engine import use
from graph_quant.nn import DynamicW8A8, DynamicW8A8Experts, quantize_
from graph_quant.reference.matmul.int8_matmul import int8_matmul
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from engine import _alternating, _compiled

CONFIG = LlamaConfig(
    hidden_size=2048, intermediate_size=5632, num_attention_heads=16, num_key_value_heads=16, attn_implementation="sdpa"
)
# Rows fit a core's cache, and k is large enough that storing results does not count.
PEAK = 48, 8192, 8192


class Layer(nn.Module):
    """One decoder layer over a prompt."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.rotary = LlamaDecoderLayer(CONFIG, 0), LlamaRotaryEmbedding(CONFIG)

    def forward(self, hidden: Tensor, positions: Tensor) -> Tensor:
        output = self.layer(hidden, position_embeddings=self.rotary(hidden, positions), position_ids=positions)
        return output[0] if isinstance(output, tuple) else output


def measure() -> dict[str, Any]:
    """All figures."""
    # One token is so fast that its minimum needs more rounds.
    rounds = {1: 60, 128: 10}
    return {"experts": experts(), "layer": {f"{tokens} tokens": layer(tokens, rounds[tokens]) for tokens in rounds}}


@torch.no_grad()
def layer(tokens: int, rounds: int) -> dict[str, Any]:
    """Return the speedup of the quantised layer."""
    torch.manual_seed(0)
    plain = Layer().bfloat16().eval()
    quantised = copy.deepcopy(plain)
    quantize_(quantised, DynamicW8A8())
    inputs = torch.randn(1, tokens, 2048).bfloat16(), torch.arange(tokens).unsqueeze(0)
    on_device = tuple(tensor.npu() for tensor in inputs)
    compiled = _compiled(quantised.npu(), "inductor", on_device)
    functions: dict[str, Callable[[], object]] = {"quantised": lambda: compiled(*on_device)}
    functions["bfloat16"] = _by_inductor(plain, inputs)
    if find_spec("torchao") is not None:
        functions["torchao"] = _by_inductor(_by_torchao(plain), inputs)
    compared = [name for name in functions if name != "quantised"]
    functions |= _products(plain, tokens)
    with use("inductor"):
        times = _alternating(functions, rounds)
    figures: dict[str, Any] = {f"{name} / quantised": round(times[name] / times["quantised"], 2) for name in compared}
    figures["limits"] = "at least 2, 1"
    figures["of products alone"] = round(times["bfloat16 products"] / times["int8 products"], 2)
    if tokens > 1:  # for one token memory decides, not the processor
        least = times["peak"] / math.prod(PEAK) * tokens * _size_of_weights(plain)
        around = times["bfloat16"] - times["bfloat16 products"]
        figures["most possible"] = round(times["bfloat16"] / (around + least), 2)
        figures["products' share of the peak"] = round(least / times["int8 products"], 2)
        figures["products' share of the layer"] = round(times["int8 products"] / times["quantised"], 2)
    return figures


def _products(plain: nn.Module, tokens: int) -> dict[str, Callable[[], object]]:
    """Time only the layer's products in bfloat16 and int8, and an int8 product on cached operands."""
    weights = [module.weight for module in plain.modules() if isinstance(module, nn.Linear)]
    integers = [torch.randint(-128, 128, matrix.shape, dtype=torch.int8) for matrix in weights]

    def rows(count: int, weight: Tensor) -> Tensor:
        return torch.randint(-128, 128, (count, weight.size(1)), dtype=torch.int8).to(weight.dtype)

    halves = [(rows(tokens, matrix), matrix.t()) for matrix in weights]
    bytes_ = [(rows(tokens, matrix), matrix.t()) for matrix in integers]
    count, columns, depth = PEAK
    column = torch.randint(-128, 128, (1, depth), dtype=torch.int8)
    peak = rows(count, column), column.expand(columns, depth).t()
    return {
        "bfloat16 products": lambda: [torch.mm(*pair) for pair in halves],
        "int8 products": lambda: [int8_matmul(*pair) for pair in bytes_],
        "peak": lambda: int8_matmul(*peak),
    }


def _size_of_weights(plain: nn.Module) -> int:
    return sum(module.weight.numel() for module in plain.modules() if isinstance(module, nn.Linear))


def _by_inductor(model: nn.Module, inputs: tuple[Tensor, ...]) -> Callable[[], object]:
    compiled = torch.compile(model, dynamic=False)
    compiled(*inputs)
    return lambda: compiled(*inputs)


def _by_torchao(model: nn.Module) -> nn.Module:
    import torchao.quantization as torchao

    model = copy.deepcopy(model)
    torchao.quantize_(model, torchao.Int8DynamicActivationInt8WeightConfig())
    return model


class Experts(nn.Module):
    """Gated experts."""

    def __init__(self, experts: int) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.randn(experts, 512, 512).bfloat16())
        self.down_proj = nn.Parameter(torch.randn(experts, 512, 256).bfloat16())
        self.act_fn = nn.SiLU()


@torch.no_grad()
def experts(rounds: int = 5) -> dict[str, Any]:
    """W8A8 experts, two of them for each token."""
    calls = {
        "8 experts, 512 tokens": (8, 512),
        "64 experts, 512 tokens": (64, 512),
        "8 experts, 2048 tokens": (8, 2048),
    }
    functions = {}
    for name, (count, tokens) in calls.items():
        module = DynamicW8A8Experts.from_float(Experts(count))
        chosen = torch.rand(tokens, count).topk(2).indices
        inputs = torch.randn(tokens, 512).bfloat16(), chosen, torch.rand(tokens, 2)
        functions[name] = lambda module=module, inputs=inputs: module(*inputs)
    times = _alternating(functions, rounds)
    first = times["8 experts, 512 tokens"]
    return {name: {"times the first": round(taken / first, 2)} for name, taken in times.items()}

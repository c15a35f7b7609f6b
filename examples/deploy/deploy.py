"""From a float model to a gate in CI: search, quantise, compare, save, check, load, compile, lint.

Every step is one call or one command; what it writes is in the folder of --out. The model is a small Llama with random
weights, so that nothing is downloaded and the script ends in seconds: put your own in `make_model` and `samples`.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import graph_quant  # noqa: F401  (before torch: it makes torch_npu loadable)
import torch
import torch_npu  # noqa: F401
from graph_quant.checkpoints import check_checkpoint
from graph_quant.cli import main as graph_quant_command
from graph_quant.nn import Budget, compare, load_quantised, quantize_, save_quantised, search
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, LlamaConfig

CONFIG = LlamaConfig(
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=512,
    dtype="bfloat16",
)
MIN_SQNR = 27.0  # of the logits, in dB


def make_model() -> nn.Module:
    """The float model."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.bfloat16, attn_implementation="sdpa")
    with torch.no_grad():  # an outlier, as trained models have: int8 activations lose the other channels
        model.model.layers[1].post_attention_layernorm.weight[7] = 120
    return model.eval().npu()  # type: ignore[no-any-return]


class Logits(nn.Module):
    """The model as a function of its tokens."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(input_ids=tokens, use_cache=False).logits  # type: ignore[no-any-return]


def deploy(folder: Path) -> dict[str, Any]:
    """Take all steps; return what they measured."""
    samples = [torch.randint(CONFIG.vocab_size, (1, 32)).npu() for _ in range(4)]
    model = make_model()

    print("1. search: which module may have which scheme")
    result = search(model, samples, Budget(sqnr=MIN_SQNR), schemes=("W8A8", "W8A16"))
    result.recipe.save(folder / "recipe.json")
    print("\n".join(result.lines()))

    print("\n2. quantise, and compare with the float model")
    quantised = copy.deepcopy(model)
    quantize_(quantised, str(folder / "recipe.json"))
    comparison = compare(model, quantised, samples)
    (folder / "accuracy.html").write_text(comparison.to_html(), encoding="utf-8")
    print("\n".join(comparison.lines(3)))

    print("\n3. save, and check the checkpoint before an engine loads it")
    save_quantised(quantised, folder / "checkpoint")
    report = check_checkpoint(folder / "checkpoint", chip="A2", cards=2)
    print("\n".join(report.lines()))

    print("\n4. load, compile, and compare the graph with eager mode")
    loaded = make_model()
    load_quantised(loaded, folder / "checkpoint")
    torch._dynamo.reset()
    graph = torch.compile(Logits(loaded), backend="npu", dynamic=False, options={"dump": str(folder / "graphs")})
    with torch.no_grad():
        is_equal = torch.equal(graph(samples[0]), Logits(quantised)(samples[0]))
    print(f"the graph of the loaded model gives the bits of the quantised one: {is_equal}")

    print("\n5. the gate: red when the graph gets worse")
    baseline = folder / "lint.json"
    graph_quant_command(["lint", str(folder / "graphs"), "--write-baseline", str(baseline)])
    gate = graph_quant_command(["lint", str(folder / "graphs"), "--baseline", str(baseline), "--fail-on", "warning"])
    print(f"exit code of the gate: {gate}")

    print(f"\n6. serve, where vLLM is: vllm serve {folder / 'checkpoint'} --quantization ascend")
    return {
        "sqnr": comparison.output.sqnr,
        "size": result.size / result.float_size,
        "checkpoint": report.ok,
        "equal": is_equal,
        "gate": gate,
    }


def main() -> int:
    """Deploy into a folder; return 0 if every step passes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="a folder for what the steps write; default: a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.out or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        measured = deploy(folder)
        (folder / "measured.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    passes = measured["sqnr"] >= MIN_SQNR and measured["checkpoint"] and measured["equal"] and measured["gate"] == 0
    return 0 if passes else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""Memory of a model of eight billion parameters in W4A8: from the checkpoint to a decode step.

The checkpoint, of 32 layers with hidden size 4096 and random integers, is written to a temporary folder (about 6 GB).
It is loaded into a model on the meta device, and decodes one token eagerly and as a GE graph, in processes of their
own. The figures are the largest memory of the process beyond that of its imports, mapped files left out, and its
quotient by the bytes of the model's tensors.

    python benchmarks/run.py memory
    python benchmarks/memory.py --layers 4
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

LAYERS = 32
MODES = "eager", "GE graph, engine eager", "GE graph, engine inductor"
CACHE_LENGTH = 128
SHAPES = {
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
}


def measure(layers: int = LAYERS) -> dict[str, Any]:
    """Return a row for each mode."""
    with tempfile.TemporaryDirectory() as folder:
        _run("write", folder, layers)
        return {mode: json.loads(_run(mode, folder, layers).splitlines()[-1]) for mode in MODES}


def _run(step: str, folder: str, layers: int) -> str:
    command = [sys.executable, __file__, "--step", step, "--folder", folder, "--layers", str(layers)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _config(layers: int) -> Any:
    from transformers import Qwen3Config

    return Qwen3Config(num_hidden_layers=layers, **SHAPES)


def write_checkpoint(folder: Path, layers: int) -> None:
    """Quantise a model of one layer, and store that layer ``layers`` times, a file each."""
    import graph_quant  # noqa: F401
    from graph_quant.nn import W4A8, quantize_, save_quantised
    from safetensors.torch import load_file, save_file
    from transformers import Qwen3ForCausalLM

    model = Qwen3ForCausalLM(_config(1)).bfloat16()
    quantize_(model, W4A8(), filter=lambda _, name: name != "lm_head")
    save_quantised(model, folder, format="msmodelslim")
    (path,) = folder.glob("*.safetensors")
    tensors = load_file(path)
    (description,) = folder.glob("quant_model_description*.json")
    schemes = json.loads(description.read_text())
    inner = "model.layers.0."
    for index in range(layers):
        outer = f"model.layers.{index}."
        names = {name: name.replace(inner, outer) for name in tensors if name.startswith(inner)}
        if index:
            save_file({other: tensors[name] for name, other in names.items()}, folder / f"layer{index:02}.safetensors")
        schemes |= {name.replace(inner, outer): kind for name, kind in schemes.items() if name.startswith(inner)}
    description.write_text(json.dumps(schemes))


class Peak(threading.Thread):
    """Samples the process's own memory: files that are mapped, and can be dropped, do not count."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes = 0
        self.is_running = True

    def run(self) -> None:
        """Sample until stopped."""
        while self.is_running:
            self.bytes = max(self.bytes, own_memory())
            time.sleep(0.01)


def own_memory() -> int:
    """Resident bytes of the process that are no mapped file."""
    status = Path("/proc/self/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return sum(int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))


def decode(folder: Path, layers: int, mode: str) -> dict[str, Any]:
    """Load the checkpoint and decode one token after a prompt of four."""
    import graph_quant  # noqa: F401
    import torch
    import torch_npu  # noqa: F401
    from graph_quant.host.engine import use
    from graph_quant.nn import load_quantised
    from transformers import Qwen3ForCausalLM, StaticCache

    torch.ones(2).npu()
    config = _config(layers)
    before, peak = own_memory(), Peak()
    peak.start()
    start = time.perf_counter()
    with torch.device("meta"):
        model = Qwen3ForCausalLM(config).bfloat16().eval()
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    load_quantised(model, folder, device="npu")
    loaded = time.perf_counter()
    weights = sum(tensor.untyped_storage().nbytes() for tensor in model.state_dict().values())
    cache = StaticCache(config=config, max_cache_len=CACHE_LENGTH)
    with torch.no_grad(), use(mode.rpartition(" ")[2] if "engine" in mode else "eager"):
        model(torch.arange(4).reshape(1, 4).npu(), past_key_values=cache)
        step = torch.compile(model, backend="npu", dynamic=False, fullgraph=True) if "graph" in mode else model
        for _ in range(2):
            begin = time.perf_counter()
            step(torch.tensor([[7]]).npu(), past_key_values=cache)
            took = time.perf_counter() - begin
    peak.is_running = False
    peak.join()
    return {
        "weights, GB": round(weights / 1e9, 2),
        "peak, GB": round((peak.bytes - before) / 1e9, 2),
        "peak / weights": round((peak.bytes - before) / weights, 2),
        "load, s": round(loaded - start, 1),
        "first step, s": round(begin - loaded, 1),
        "step, s": round(took, 2),
    }


def main() -> None:
    """Run one step, or all and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=LAYERS, help=f"decoder layers (default: {LAYERS})")
    parser.add_argument("--step", help="write, or a mode; by default all")
    parser.add_argument("--folder", type=Path, help="the folder of the checkpoint, with --step")
    options = parser.parse_args()
    if options.step is None:
        print(json.dumps(measure(options.layers), indent=2))
    elif options.step == "write":
        write_checkpoint(options.folder, options.layers)
    else:
        print(json.dumps(decode(options.folder, options.layers, options.step)))


if __name__ == "__main__":
    main()

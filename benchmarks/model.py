"""Whole decoders as users run them: a prompt of 128 tokens and a decode step with a static cache, in every mode.

The models are transformers' own with random weights: Qwen3 in bfloat16, W8A8 scaled by token and W4A8, a mixture of
experts, and DeepSeek-V3's latent attention, of 4 layers. All linears are quantised but ``lm_head``. Every mode runs in
a process of its own. Its calls alternate with those of the same model in bfloat16 under Inductor on the CPU, so that
ratios hold on a machine that does other work. The first call includes compilation; peak memory is that of the process.

    python benchmarks/run.py model
    python benchmarks/model.py --models "dense, W8A8" --modes captured --tokens 1
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

TOKENS = 128, 1
CACHE_LENGTH = 256
MODELS = ("dense, bfloat16", "dense, W8A8", "dense, W4A8", "experts, W8A8", "latent attention, W8A8")
REFERENCE = "CPU, Inductor"
MODES = (
    REFERENCE,
    "CPU, eager",
    "CPU, torchao int8, Inductor",
    "eager",
    "GE graph, engine eager",
    "GE graph, engine inductor",
    "npugraph_ex",
    "captured",
)
ROUNDS, SECONDS = 30, 12.0
DENSE = {
    "hidden_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
}


def measure(
    models: Iterable[str] = MODELS, modes: Iterable[str] = MODES, tokens: Iterable[int] = TOKENS
) -> dict[str, Any]:
    """Return a table for each model and number of tokens."""
    modes = [mode for mode in modes if mode != REFERENCE]
    return {f"{model}, {count} tokens": table(model, modes, count) for model in models for count in tokens}


def table(model: str, modes: Sequence[str], tokens: int) -> dict[str, dict[str, Any]]:
    """Return the figures of each mode, beside those of the reference in the same rounds."""
    rows: dict[str, dict[str, Any]] = {}
    with _worker(model, REFERENCE, tokens) as reference:
        for mode in modes:
            if "torchao" in mode and model == "dense, bfloat16":
                continue
            try:
                with _worker(model, mode, tokens) as worker:
                    rows[mode] = _figures(worker, reference)
            except RuntimeError as error:
                rows[mode] = {"ms": str(error)}
        rows[REFERENCE] = _figures(reference, reference)
    return rows


def _figures(worker: Worker, reference: Worker) -> dict[str, Any]:
    """Alternate calls of both, and return medians."""
    workers = {worker, reference}
    for process in workers:
        process.call()
    times: dict[Worker, list[float]] = {process: [] for process in workers}
    end = time.monotonic() + SECONDS
    while len(times[worker]) < ROUNDS and (time.monotonic() < end or len(times[worker]) < 5):
        for process in workers:
            times[process].append(process.call())
    taken = median(times[worker])
    return {
        "ms": round(taken * 1e3, 1),
        "speed of the reference": round(median(times[reference]) / taken, 2),
        "first call s": round(worker.first, 1),
        "peak MB": round(worker.ask("peak")),
    }


class Worker:
    """A process with a model, which calls it on request."""

    def __init__(self, model: str, mode: str, tokens: int) -> None:
        command = [sys.executable, __file__, "--worker", model, mode, str(tokens)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.first = self._answer()

    def ask(self, question: str) -> float:
        """Return the worker's answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{question}\n")
        self.process.stdin.flush()
        return self._answer()

    def call(self) -> float:
        """Return the seconds of a call: the least of two, as a process that waited calls slowly at first."""
        return min(self.ask("call"), self.ask("call"))

    def _answer(self) -> float:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("answer "):
                return float(line.removeprefix("answer "))
        raise RuntimeError("failed")


@contextmanager
def _worker(model: str, mode: str, tokens: int) -> Iterator[Worker]:
    worker = Worker(model, mode, tokens)
    try:
        yield worker
    finally:
        worker.process.communicate()


def serve(model: str, mode: str, tokens: int) -> None:
    """Answer questions from the standard input."""
    import graph_quant  # noqa: F401  (before torch: it makes torch_npu loadable, for which transformers looks)
    import torch

    with torch.no_grad():
        call = prepare(model, mode, tokens)
        start = time.perf_counter()
        call()
        print("answer", time.perf_counter() - start, flush=True)
        for line in sys.stdin:
            print("answer", _peak() if line == "peak\n" else _seconds(call), flush=True)


def _seconds(call: Callable[[], object]) -> float:
    """Return the time of a call; one thread is timed by what the processor gave it."""
    import torch

    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    call()
    return clock() - start


def _peak() -> float:
    with open("/proc/self/status") as file:  # noqa: PTH123
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024


def prepare(name: str, mode: str, tokens: int) -> Callable[[], object]:
    """Return a call of the model in a mode; its first call compiles or captures."""
    import torch

    torch.manual_seed(0)
    model = _build(name)
    on_cpu = mode.startswith("CPU")
    if "torchao" in mode:
        _quantise_by_torchao(model)
    elif not on_cpu:
        _quantise(model, name)
        model = model.npu()
    device = "cpu" if on_cpu else "npu"
    cache = _cache(model, device)
    inputs = torch.randint(32000, (1, tokens)).to(device)
    length = torch.tensor(0 if tokens > 1 else TOKENS[0], device=device)
    # transformers would read values of positions to choose a mask, which no capture permits.
    mask = torch.ones(tokens, CACHE_LENGTH, dtype=torch.bool).tril(int(length)).to(device)[None, None]
    run = _in_mode(model, mode)

    def call() -> object:
        for layer in cache.layers:
            layer.cumulative_length.copy_(length)
        return run(inputs, mask, cache)

    if mode == "captured":
        return _captured(call)
    return call


def _build(name: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, DeepseekV3Config, Qwen3Config, Qwen3MoeConfig

    config: Any
    if name.startswith("dense"):
        config = Qwen3Config(intermediate_size=3072, head_dim=128, **DENSE)
    elif name.startswith("experts"):
        experts = {"num_experts": 32, "num_experts_per_tok": 4, "moe_intermediate_size": 512}
        config = Qwen3MoeConfig(head_dim=128, norm_topk_prob=True, **experts, **DENSE)
    else:
        ranks = {"q_lora_rank": 768, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
        heads = {"qk_nope_head_dim": 128, "v_head_dim": 128, "num_key_value_heads": 16}
        config = DeepseekV3Config(intermediate_size=3072, first_k_dense_replace=4, **ranks, **{**DENSE, **heads})
    return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa").eval()


def _quantise(model: Any, name: str) -> None:
    from graph_quant.nn import W4A8, DynamicW8A8, quantize_

    if name.endswith("bfloat16"):
        return
    quantize_(model, W4A8() if name.endswith("W4A8") else DynamicW8A8(), lambda _, layer: layer != "lm_head")


def _quantise_by_torchao(model: Any) -> None:
    import torchao.quantization as torchao
    from torch import nn

    torchao.quantize_(
        model,
        torchao.Int8DynamicActivationInt8WeightConfig(),
        lambda module, layer: isinstance(module, nn.Linear) and layer != "lm_head",
    )


def _cache(model: Any, device: str) -> Any:
    import torch
    from transformers import StaticCache

    config = model.config
    cache = StaticCache(config=config, max_cache_len=CACHE_LENGTH)
    widths = [config.head_dim] * 2
    if hasattr(config, "kv_lora_rank"):
        widths = [config.qk_nope_head_dim + config.qk_rope_head_dim, config.v_head_dim]
    states = [
        torch.zeros(1, config.num_key_value_heads, 1, width, dtype=model.dtype, device=device) for width in widths
    ]
    for layer in cache.layers:
        layer.lazy_initialization(*states)
    return cache


def _in_mode(model: Any, mode: str) -> Callable[[Any, Any, Any], object]:
    import torch

    function = model
    if mode.startswith("CPU") and "Inductor" in mode:
        function = torch.compile(model, dynamic=False)
    elif mode == "npugraph_ex":
        function = torch.compile(model, backend="npugraph_ex", fullgraph=True, dynamic=False)
    elif mode.startswith("GE graph"):
        import torchair
        from graph_quant.host.engine import use

        backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
        compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=False)

        def in_graph(inputs: Any, mask: Any, cache: Any) -> object:
            with use(mode.removeprefix("GE graph, engine ")):
                return compiled(input_ids=inputs, attention_mask=mask, past_key_values=cache).logits

        return in_graph
    return lambda inputs, mask, cache: function(input_ids=inputs, attention_mask=mask, past_key_values=cache).logits


def _captured(call: Callable[[], object]) -> Callable[[], object]:
    graphs: list[Any] = []

    def replay() -> None:
        import torch

        if not graphs:
            call()
            graphs.append(torch.npu.NPUGraph())  # type: ignore[attr-defined]
            with torch.npu.graph(graphs[0]):  # type: ignore[attr-defined]
                call()
        graphs[0].replay()

    return replay


def main() -> None:
    """Print the figures of some models and modes, or work for another process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--tokens", nargs="+", type=int, default=TOKENS)
    parser.add_argument("--worker", nargs=3, metavar=("model", "mode", "tokens"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        model, mode, tokens = options.worker
        serve(model, mode, int(tokens))
    else:
        print(json.dumps(measure(options.models, options.modes, options.tokens), indent=1))


if __name__ == "__main__":
    main()

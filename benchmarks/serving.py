"""vLLM's engine with a tiny dense model: the start, and tokens relative to the same model in plain transformers.

Times are those that the processor gave to the process, in which the engine runs too. Both generate alternately, one
prompt, bfloat16, one thread. Needs vLLM (docs/serving.md); without it there are no figures.

    python benchmarks/run.py serving
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TOKENS, ROUNDS = 64, 5
# Bounds: seconds until the engine is ready, and the time of a token in transformers relative to that in vLLM.
BARS = {"start s": 40, "ratio": 0.5}
MODES = {"eager": True, "FULL_DECODE_ONLY": False}
_ENVIRONMENT = {
    "GRAPH_QUANT_MEMORY": "2GiB",
    "GRAPH_QUANT_TRITON_CORES": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_USE_AOT_COMPILE": "0",
}
_ROOT = Path(__file__).parents[1]


def measure() -> dict[str, Any]:
    """Return the figures of each mode, from a process of its own."""
    if find_spec("vllm") is None:
        return {}
    environment = {**os.environ, **_ENVIRONMENT, "PYTHONPATH": str(_ROOT)}
    rows = {}
    for mode in MODES:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "graph_quant", "run", __file__, folder, mode]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        rows[mode] = json.loads(done.stdout.splitlines()[-1])
    return rows


def figures(folder: Path, mode: str) -> dict[str, float]:
    """Start the engine, then generate alternately."""
    from vllm import LLM, SamplingParams

    from compat.engine.models import MODELS, options_of
    from compat.engine.reference import write

    model = MODELS["qwen3-bf16"]
    before = time.process_time()
    write(model, folder)
    writing = time.process_time() - before
    engine = LLM(str(folder), **options_of(model, mode))
    start = time.process_time() - writing

    import torch
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    sampling = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True)
    prompt = torch.tensor([engine.get_tokenizer().encode("The quick brown fox")])

    def transformers() -> None:
        plain.generate(prompt, max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False)

    def vllm() -> None:
        engine.generate("The quick brown fox", sampling, use_tqdm=False)

    taken: dict[str, list[float]] = {"transformers": [], "vllm": []}
    for round_ in range(ROUNDS + 1):
        for generate in (transformers, vllm):
            before = time.process_time()
            generate()
            if round_:  # the first call of each prepares
                taken[generate.__name__].append((time.process_time() - before) / TOKENS * 1e3)
    quick = {name: min(times) for name, times in taken.items()}
    return {
        "start s": round(start, 1),
        "transformers ms": round(quick["transformers"], 2),
        "vllm ms": round(quick["vllm"], 2),
        "ratio": round(quick["transformers"] / quick["vllm"], 2),
    }


if __name__ == "__main__":
    print(json.dumps(figures(Path(sys.argv[1]), sys.argv[2])))

"""Serves prompts with vLLM's engine, as a user's script does: ``driver.py FOLDER`` with its settings in the folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from vllm import LLM, SamplingParams
from vllm.lora.request import LoRARequest
from vllm.sampling_params import StructuredOutputsParams


def main() -> None:
    """Write the answers to the last round of prompts, and the counters of the engine."""
    folder = Path(sys.argv[1])
    settings = json.loads((folder / "settings.json").read_text())
    engine = LLM(str(folder), **settings["options"])
    ask = _embed if settings["embeds"] else _generate
    requests: list[dict[str, Any]] = []
    for _ in range(settings["rounds"]):
        requests = ask(engine, settings, folder)
    counters: dict[str, float] = {}
    if not settings["options"].get("disable_log_stats", True):
        counters = {metric.name: getattr(metric, "value", 0) for metric in engine.get_metrics()}
    (folder / "requests.json").write_text(json.dumps({"requests": requests, "counters": counters}))


def _generate(engine: LLM, settings: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Generate greedily; return the prompts, the tokens and the logarithms of their probabilities."""
    letters, tokens = settings["letters"], settings["tokens"]
    grammar = StructuredOutputsParams(regex=f"[{letters}]{{{tokens}}}") if letters else None
    sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, logprobs=5, structured_outputs=grammar)
    adapter = LoRARequest("adapter", 1, str(folder / "adapter"))
    chosen = [adapter if index in settings["adapted"] else None for index, _ in enumerate(settings["prompts"])]
    return [
        {
            "prompt": list(request.prompt_token_ids or []),
            "tokens": list(request.outputs[0].token_ids),
            "logprobs": [
                {str(token): entry.logprob for token, entry in step.items()}
                for step in request.outputs[0].logprobs or []
            ],
        }
        for request in engine.generate(
            settings["prompts"], sampling, lora_request=chosen if settings["adapted"] else None
        )
    ]


def _embed(engine: LLM, settings: dict[str, Any], _folder: Path) -> list[dict[str, Any]]:
    return [
        {"prompt": list(request.prompt_token_ids), "embedding": list(request.outputs.embedding)}
        for request in engine.embed(settings["prompts"])
    ]


if __name__ == "__main__":  # the engine's processes import this file
    main()

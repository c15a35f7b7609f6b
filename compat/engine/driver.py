"""Serves prompts with vLLM's engine, as a user's script does: ``driver.py FOLDER`` with its settings in the folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from vllm import LLM, SamplingParams


def main() -> None:
    """Generate greedily; write the prompts, the tokens and the logarithms of their probabilities."""
    folder = Path(sys.argv[1])
    settings = json.loads((folder / "settings.json").read_text())
    engine = LLM(str(folder), **settings["options"])
    sampling = SamplingParams(temperature=0, max_tokens=settings["tokens"], ignore_eos=True, logprobs=5)
    requests = [
        {
            "prompt": list(request.prompt_token_ids or []),
            "tokens": list(request.outputs[0].token_ids),
            "logprobs": [
                {token: entry.logprob for token, entry in step.items()} for step in request.outputs[0].logprobs or []
            ],
        }
        for request in engine.generate(settings["prompts"], sampling)
    ]
    (folder / "requests.json").write_text(json.dumps(requests))


if __name__ == "__main__":  # the engine's processes import this file
    main()

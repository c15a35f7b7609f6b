"""Serves a model in each mode, compares eager execution with transformers, and captured graphs with eager execution."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import graph_quant  # noqa: F401  (before torch)
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from ..outcome import Outcome, Verdict, outcome_of_process
from .agreement import TOKENS, agreement, difference
from .models import EAGER, FUSED, LONG_SERVER, MODELS, SERVERS, Model, options_of
from .reference import embedding_of, load, logits_of, merge_adapter, round_inputs, write

# Relative to the largest logit: what bfloat16 and int8 activations change in two layers.
_BOUND, _QUANTISED_BOUND = 0.05, 0.1
_ENVIRONMENT = {
    "GRAPH_QUANT_MEMORY": "2GiB",
    "GRAPH_QUANT_TRITON_CORES": "1",
    "VLLM_USE_AOT_COMPILE": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
Run = Callable[[list[str], Path, dict[str, str]], tuple[int | None, str]]
Requests = list[dict[str, Any]]


def outcomes(name: str, folder: Path, run: Run) -> Iterator[Outcome]:
    """Yield one outcome for each mode."""
    model = MODELS[name]
    plain = write(model, folder)
    eager: Requests | None = None
    for mode in model.modes:
        label = f"{name}, {mode}"
        ended, answers = _serve(model, mode, folder, run)
        if answers is None:
            yield Outcome(label, ended.verdict, ended.reason)
        elif model.counter and not answers["counters"].get(model.counter):
            yield Outcome(label, Verdict.FAILED, f"{model.counter} is 0")
        elif mode in (EAGER, FUSED, *SERVERS):
            eager = eager or answers["requests"]
            compared = _compare_with_transformers(label, model, folder, plain, answers["requests"])
            yield Outcome(label, compared.verdict, "; ".join(filter(None, [compared.reason, answers.get("note")])))
        elif eager is None:
            yield Outcome(label, Verdict.FAILED, "there is nothing to compare with")
        else:
            yield _compare_with_eager(label, eager, answers["requests"])


def _serve(model: Model, mode: str, folder: Path, run: Run) -> tuple[Outcome, dict[str, Any] | None]:
    settings = {
        "options": options_of(model, mode),
        "prompts": model.prompts,
        "tokens": TOKENS,
        "is_long": mode == LONG_SERVER,
        "embeds": model.embeds,
        "letters": model.letters,
        "adapted": model.adapted,
        "rounds": model.rounds,
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "requests.json").unlink(missing_ok=True)
    environment = {**_ENVIRONMENT, **model.environment}
    script = Path(__file__).with_name("server.py" if mode in SERVERS else "driver.py")
    code, output = run(["run", str(script), str(folder)], folder, environment)
    ended = outcome_of_process(mode, code, output)
    if ended.verdict is not Verdict.PASSED:
        return ended, None
    return ended, json.loads((folder / "requests.json").read_text())


def _compare_with_transformers(label: str, model: Model, folder: Path, plain: Path, requests: Requests) -> Outcome:
    @cache
    def reference(adapted: bool, dtype: torch.dtype) -> nn.Module:
        loaded = load(plain, dtype)
        if adapted:
            merge_adapter(loaded, folder / "adapter")
        if model.rounds_inputs:
            round_inputs(loaded, load_file(folder / "model.safetensors"))
        return loaded

    def logits(index: int, dtype: torch.dtype = torch.float32) -> Tensor:
        request = requests[index]
        tokens = torch.tensor([request["prompt"] + request["tokens"]])
        return logits_of(reference(index in model.adapted, dtype), tokens)[0, len(request["prompt"]) - 1 : -1]

    if model.embeds:
        return _compare_embeddings(label, reference(False, torch.float32), requests)
    vocabulary = Tokenizer.from_file(str(folder / "tokenizer.json"))
    allowed = [vocabulary.token_to_id(letter) for letter in model.letters]
    agreements = [agreement(request, logits(index), allowed) for index, request in enumerate(requests)]
    bound = _QUANTISED_BOUND if model.scheme else _BOUND
    counts = ", ".join(str(one.tokens) for one in agreements)
    reason = f"{counts} of {TOKENS} tokens are those of transformers in float32"
    if behind := max(one.behind for one in agreements):
        reason += f", the others are within {behind:.3f} of the largest logit"
    error = max(one.error for one in agreements)
    reason += f"; probabilities are off by {error:.3f}"
    passed = all(one.accepts(bound) for one in agreements)
    if not passed:
        # Where tokens are nearly tied, transformers itself chooses others in bfloat16.
        noise = max(difference(logits(index, torch.bfloat16), logits(index)) for index in range(len(requests)))
        reason += f", those of transformers in bfloat16 by {noise:.3f}"
        passed = behind < noise and error < noise
    return Outcome(label, Verdict.PASSED if passed else Verdict.FAILED, reason)


def _compare_embeddings(label: str, reference: nn.Module, requests: Requests) -> Outcome:
    """Compare unit vectors by the length of their difference."""
    errors = [
        (torch.tensor(request["embedding"]) - embedding_of(reference, torch.tensor([request["prompt"]]))).norm().item()
        for request in requests
    ]
    reason = f"embeddings are off by {max(errors):.4f} of their length"
    return Outcome(label, Verdict.PASSED if max(errors) < _BOUND else Verdict.FAILED, reason)


def _compare_with_eager(label: str, eager: Requests, requests: Requests) -> Outcome:
    if requests == eager:
        what = "embedding" if "embedding" in eager[0] else "token and probability"
        return Outcome(label, Verdict.PASSED, f"every {what} equals eager's")
    if "embedding" in eager[0]:
        return Outcome(label, Verdict.FAILED, "embeddings differ from eager's")
    same = sum(one["tokens"] == other["tokens"] for one, other in zip(eager, requests, strict=True))
    errors = (
        abs(one_step[token] - other_step[token])
        for one, other in zip(eager, requests, strict=True)
        for one_step, other_step in zip(one["logprobs"], other["logprobs"], strict=True)
        for token in one_step.keys() & other_step.keys()
    )
    error = max(errors, default=math.inf)
    reason = f"{same} of {len(eager)} requests have eager's tokens; probabilities differ by {error:.4f}"
    return Outcome(label, Verdict.FAILED, reason)

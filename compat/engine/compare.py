"""Serves a model in each mode, compares eager execution with transformers, and captured graphs with eager execution."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import graph_quant  # noqa: F401  (before torch)
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from ..outcome import Outcome, Verdict, outcome_of_process
from ..recipes.tiny import ONE_MODEL_AT_A_TIME, write_tokenizer, write_weights
from .checkpoint import quantise
from .models import EAGER, FUSED, MODELS, SERVER, Model, options_of

PROMPTS = ("The quick brown fox", "Hello", "In the beginning was the word, and the word was with")
TOKENS, LEAST = 32, 30
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
        ended, requests = _serve(model, mode, folder, run)
        if requests is None:
            yield Outcome(label, ended.verdict, ended.reason)
        elif mode in (EAGER, FUSED, SERVER):
            eager = eager or requests
            yield _compare_with_transformers(label, folder, plain, requests)
        elif eager is None:
            yield Outcome(label, Verdict.FAILED, "there is nothing to compare with")
        else:
            yield _compare_with_eager(label, eager, requests)


def write(model: Model, folder: Path) -> Path:
    """Write the model's folder; return the folder of the weights that transformers can read."""
    tokens = write_tokenizer(folder)
    ids = {"eos_token_id": tokens - 2, "bos_token_id": tokens - 1, "pad_token_id": tokens - 1}
    plain = folder / "plain" if model.scheme else folder
    with ONE_MODEL_AT_A_TIME:
        write_weights(plain, {**model.config, **ids})
    if model.scheme:
        inputs = _largest_inputs(plain) if model.scheme == "W8A8" else {}
        quantise(plain, folder, model.scheme, model.unquantised, inputs)
        (folder / "config.json").write_text((plain / "config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**ids, "do_sample": False}))
    return plain


def _largest_inputs(plain: Path) -> Mapping[str, Tensor]:
    """Return the largest magnitude that each linear gets as its input, for some tokens."""
    model = _load(plain)
    largest: dict[str, Tensor] = {}

    def note(name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            largest[name] = torch.maximum(largest.get(name, torch.zeros(())), inputs[0].abs().max())

        return hook

    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            module.register_forward_pre_hook(note(name))
    _logits(model, torch.randint(256, (4, 64), generator=torch.Generator().manual_seed(1)))
    return largest


def _load(folder: Path) -> nn.Module:
    with ONE_MODEL_AT_A_TIME:
        model: nn.Module = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.eval()


def round_inputs(model: nn.Module, stored: Mapping[str, Tensor]) -> None:
    """Let the linears that a checkpoint quantises round their inputs to int8; experts are left as they are."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and f"{name}.weight_scale" in stored:
            module.register_forward_pre_hook(partial(_rounded, stored.get(f"{name}.input_scale")))


def _rounded(scale: Tensor | None, _module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the inputs in steps of a static scale, or of a scale for each token."""
    first, *others = inputs
    step = first.abs().amax(-1, keepdim=True).clamp_min(1e-30) / 127 if scale is None else scale
    return ((first / step).round().clamp(-128, 127) * step, *others)


def _logits(model: nn.Module, tokens: Tensor) -> Tensor:
    with ONE_MODEL_AT_A_TIME, torch.no_grad():
        logits: Tensor = model(tokens).logits
    return logits


def _serve(model: Model, mode: str, folder: Path, run: Run) -> tuple[Outcome, Requests | None]:
    settings = {"options": options_of(model, mode), "prompts": PROMPTS, "tokens": TOKENS}
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "requests.json").unlink(missing_ok=True)
    environment = {**_ENVIRONMENT, **model.environment}
    script = Path(__file__).with_name("server.py" if mode == SERVER else "driver.py")
    code, output = run(["run", str(script), str(folder)], folder, environment)
    ended = outcome_of_process(mode, code, output)
    if ended.verdict is not Verdict.PASSED:
        return ended, None
    return ended, json.loads((folder / "requests.json").read_text())


@dataclass(frozen=True)
class Agreement:
    """How far a request agrees with logits in float32: tokens, and errors relative to the largest logit."""

    tokens: int
    behind: float  # of tokens that have not the largest logit
    error: float  # of the logarithms of probabilities

    def accepts(self, bound: float) -> bool:
        """Whether tokens agree, other tokens are ties within the bound, and so are probabilities."""
        return self.tokens >= LEAST and self.behind < bound and self.error < bound


def agreement(request: Mapping[str, Any], logits: Tensor) -> Agreement:
    """Compare a request with the logits of its own tokens."""
    tokens = torch.tensor(request["tokens"])
    largest = logits.abs().max()
    best = logits.max(-1).values
    chosen = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    expected = logits.log_softmax(-1)
    errors = [
        abs(logprob - expected[index, int(token)].item())
        for index, step in enumerate(request["logprobs"])
        for token, logprob in step.items()
    ]
    return Agreement(
        int((best == chosen).sum()), ((best - chosen).max() / largest).item(), max(errors) / largest.item()
    )


def _compare_with_transformers(label: str, folder: Path, plain: Path, requests: Requests) -> Outcome:
    reference = _load(plain)
    if is_quantised := plain != folder:
        round_inputs(reference, load_file(folder / "model.safetensors"))
    agreements = []
    for request in requests:
        tokens = torch.tensor([request["prompt"] + request["tokens"]])
        agreements.append(agreement(request, _logits(reference, tokens)[0, len(request["prompt"]) - 1 : -1]))
    bound = _QUANTISED_BOUND if is_quantised else _BOUND
    counts = ", ".join(str(one.tokens) for one in agreements)
    reason = f"{counts} of {TOKENS} tokens are those of transformers in float32"
    if behind := max(one.behind for one in agreements):
        reason += f", the others are within {behind:.3f} of the largest logit"
    reason += f"; probabilities are off by {max(one.error for one in agreements):.3f}"
    passed = all(one.accepts(bound) for one in agreements)
    return Outcome(label, Verdict.PASSED if passed else Verdict.FAILED, reason)


def _compare_with_eager(label: str, eager: Requests, requests: Requests) -> Outcome:
    if requests == eager:
        return Outcome(label, Verdict.PASSED, "every token and probability equals eager's")
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

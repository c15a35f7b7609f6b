"""Quantised decoders with npugraph_ex: captured once for each shape, then replayed, with the bits of eager mode."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import decoders
import pytest
import torch

PROMPTS = (5, 3, 5)
DECODED = 2
# Compiling takes its time: `make coverage` tries all, which are llama, qwen and the experts of moe.
MODELS = os.environ.get("GRAPH_QUANT_CAPTURED_MODELS", "llama").split(",")
REPLAYS = int(os.environ.get("GRAPH_QUANT_REPLAYS", "5"))


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad
def test_each_shape_is_captured_once_and_equals_eager_mode(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config, quantise = _example(name)
    model = decoders.make_model(config, torch.bfloat16)
    quantise(model)
    captures = _count_captures(monkeypatch)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="npugraph_ex")
    eager_cache, captured_cache = decoders.make_cache(model), decoders.make_cache(model)
    used = []
    for length in PROMPTS:
        for cache in (eager_cache, captured_cache):
            cache.reset()
        tokens = decoders.prompt(length, config.vocab_size)
        for _ in range(1 + DECODED):
            want = decoders.step(model, tokens, eager_cache)
            got = decoders.step(compiled, tokens, captured_cache)
            assert torch.equal(want, got)
            for one, other in zip(eager_cache.layers, captured_cache.layers, strict=True):
                assert torch.equal(one.keys, other.keys)
                assert torch.equal(one.values, other.values)
            tokens = want[:, -1:].argmax(-1)
        del want, got
        used.append(torch.npu.memory_allocated())
    for _ in range(REPLAYS):
        captured_cache.reset()
        decoders.step(compiled, tokens, captured_cache)
    assert len(captures) == 3, "one for each of 5, 3 and 1 tokens"
    assert used[2] <= used[1], "a third prompt takes no more memory"
    assert torch.npu.memory_allocated() <= used[2], "no replay does"


def _example(name: str) -> tuple[Any, Callable[..., object]]:
    """The configuration of an example, and what quantises a model of it."""
    example: Any = importlib.import_module(name)
    if name == "moe":
        return example.CONFIGS["Qwen3"], example.quantise_by(example.RECIPES["int8 by token"])
    return example.CONFIG, example.quantise


def _count_captures(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Record every capture that is not empty; TorchAir creates a memory pool with an empty one."""
    from graph_quant.host.capture import tape

    captures: list[object] = []

    class Counted(tape.Tape):
        def __init__(self) -> None:
            super().__init__()
            captures.append(self)

    monkeypatch.setattr(tape, "Tape", Counted)
    return captures

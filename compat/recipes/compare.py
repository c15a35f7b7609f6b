"""Runs a recipe in each mode, and compares graphs with eager bitwise and eager with transformers within a bound."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import graph_quant  # noqa: F401  (before torch)
import torch
from torch import Tensor

from ..outcome import Outcome, Verdict, outcome_of_process
from ..suites import A3, title
from .configurations import RECIPES, Recipe
from .routing import Routed, RoutingMismatchError, same_routing
from .tiny import last_logits, reference, write

# Relative to the largest logit. Two layers in bfloat16, with 8 bits of precision, differ from float32 by a few units in
# the last place; int8 activations add half a step of 1/127 at every linear.
BOUND, QUANTISED_BOUND = 0.05, 0.1
# The Python part of the recipes' extension.
_EXTENSION = "ops/ascendc/torch_ops_extension"
Run = Callable[[list[str], Path, dict[str, str]], tuple[int | None, str]]
Steps = list[dict[str, Any]]
# Runs a mode again: its name, the folder's suffix, and the environment. A run that did not end well has no steps.
Again = Callable[[str, str, dict[str, str]], tuple[Outcome, Steps | None]]


def outcomes(name: str, ranks: int, checkout: Path, folder: Path, run: Run) -> Iterator[Outcome]:
    """Yield one outcome for each mode."""
    eager: Steps | None = None
    graph: Steps | None = None
    for mode in RECIPES[name].modes:
        mode_folder = folder / mode

        def again(mode: str, kind: str, environment: dict[str, str]) -> tuple[Outcome, Steps | None]:
            return _steps(name, mode, ranks, checkout, folder / f"{mode}-{kind}", run, environment)

        ended, steps = _steps(name, mode, ranks, checkout, mode_folder, run, {})
        label = f"{title(name, ranks)}, {mode}"
        if steps is None:
            yield Outcome(label, ended.verdict, ended.reason)
        elif mode == "eager":
            eager = steps
            compared = _near_transformers if RECIPES[name].is_in_transformers else _finite
            yield compared(label, RECIPES[name], mode_folder, steps)
        elif eager is None or not steps:
            yield Outcome(label, Verdict.FAILED, "there is nothing to compare with")
        elif _equal(eager, steps):
            yield Outcome(label, Verdict.PASSED, "every logit equals eager's")
        elif RECIPES[name].in_graphs:
            yield _compare_other_operators(label, RECIPES[name].in_graphs, steps, eager, graph)
        else:
            yield _compare_without_intended_differences(label, mode, eager, again)
        graph = graph if mode == "eager" else graph or steps


def _compare_without_intended_differences(label: str, mode: str, eager: Steps, again: Again) -> Outcome:
    """Compare again without intended differences.

    TorchAir fuses norms with quantisation, and the fused kernel rounds less. The CPU sums a column-major float32 matrix
    in another order than a row-major one, and all inputs of a GE graph are row-major.
    """
    ended, plain = again(mode, "plain", {"RECIPE_FUSION": "off"})
    if plain is None:
        return _unfinished(label, "without TorchAir's fusion by patterns", ended)
    if _equal(eager, plain):
        return Outcome(label, Verdict.PASSED, "every logit equals eager's where TorchAir fuses nothing by patterns")
    in_rows = []
    for which in (mode, "eager"):
        ended, steps = again(which, "rows", {"RECIPE_ROWS": "on"})
        if steps is None:
            return _unfinished(label, f"in mode {which} with float32 weights in rows", ended)
        in_rows.append(steps)
    if _equal(*in_rows):
        return Outcome(label, Verdict.PASSED, "every logit equals eager's where weights of float32 lie in rows in both")
    return Outcome(label, Verdict.FAILED, "logits differ from eager's")


def _unfinished(label: str, run: str, ended: Outcome) -> Outcome:
    """Return the outcome where the run that would explain a difference did not end well."""
    reason = f"logits differ from eager's, and the run {run} {ended.verdict.value}: {ended.reason}"
    return Outcome(label, ended.verdict, reason.removesuffix(": "))


def _compare_other_operators(label: str, operators: str, steps: Steps, eager: Steps, graph: Steps | None) -> Outcome:
    """Compare a recipe that uses other operators in graphs: near eager, and bitwise equal between graphs."""
    if graph is not None and not _equal(graph, steps):
        return Outcome(label, Verdict.FAILED, "logits differ from those of the other graph")
    if not all(torch.equal(one["tokens"], other["tokens"]) for one, other in zip(eager, steps, strict=True)):
        return Outcome(label, Verdict.FAILED, "tokens differ from eager's")
    off = max(_relative_error(step["logits"], list(one["logits"])) for one, step in zip(eager, steps, strict=True))
    reason = f"{operators}: off eager by {off:.3f} of the largest logit"
    if graph is not None:
        reason += ", every logit as in the other graph"
    return Outcome(label, Verdict.PASSED if off < BOUND else Verdict.FAILED, reason)


def _steps(
    name: str, mode: str, ranks: int, checkout: Path, folder: Path, run: Run, environment: dict[str, str]
) -> tuple[Outcome, Steps | None]:
    settings = write(RECIPES[name], mode, folder, ranks)
    driver = Path(__file__).with_name("driver.py")
    started = ["run", *(["--ranks", str(ranks)] if ranks > 1 else [])]
    arguments = [*started, str(driver), str(checkout), str(settings), str(folder / "logits")]
    paths = os.pathsep.join(filter(None, (str(checkout.resolve() / _EXTENSION), os.environ.get("PYTHONPATH"))))
    chip = A3 if RECIPES[name].for_a3 else {}
    code, output = run(arguments, folder, {"PYTHONPATH": paths, **chip, **environment})
    ended = outcome_of_process(name, code, output)
    return ended, torch.load(folder / "logits.0") if ended.verdict is Verdict.PASSED else None


def _equal(one: Steps, other: Steps) -> bool:
    return len(one) == len(other) > 0 and all(
        torch.equal(a[key], b[key]) for a, b in zip(one, other, strict=True) for key in ("tokens", "logits")
    )


def _near_transformers(label: str, recipe: Recipe, folder: Path, steps: Steps) -> Outcome:
    first = steps[0]
    spans = list(pairwise([0, *first["ends"]]))
    prompts = [first["tokens"][start:end].tolist() for start, end in spans]
    model = reference(recipe, folder)
    bound = BOUND if recipe.bits is None else QUANTISED_BOUND
    error = _relative_error(first["logits"], [last_logits(model, prompt) for prompt in prompts])
    reason = f"off transformers in float32 by {error:.3f} of the largest logit"
    if error < bound:
        return Outcome(label, Verdict.PASSED, reason)
    layers = [Routed(*pair) for pair in first["routed"]]
    try:
        expected = []
        for prompt, span in zip(prompts, spans, strict=True):
            with same_routing(model, [layer.of(*span) for layer in layers], bound):
                expected.append(last_logits(model, prompt))
    except RoutingMismatchError as other:
        return Outcome(label, Verdict.FAILED, f"{reason}; {other}")
    error = _relative_error(first["logits"], expected)
    reason += f", by {error:.3f} where float32 takes the experts that bfloat16's inputs of the router give"
    return Outcome(label, Verdict.PASSED if error < bound else Verdict.FAILED, reason)


def _finite(label: str, recipe: Recipe, folder: Path, steps: Steps) -> Outcome:  # noqa: ARG001
    """Check a recipe without a transformers model for finite logits."""
    largest = max(step["logits"].abs().max().item() for step in steps)
    fine = 0 < largest < float("inf")
    reason = f"transformers has no such model to compare with; the largest logit is {largest:.3g}"
    return Outcome(label, Verdict.PASSED if fine else Verdict.FAILED, reason)


def _relative_error(got: Tensor, expected: list[Tensor]) -> float:
    wanted = torch.stack(expected)
    return ((got.reshape(wanted.shape) - wanted).abs().max() / wanted.abs().max()).item()

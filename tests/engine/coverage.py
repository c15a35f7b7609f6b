"""Runs the cases that TorchAir declares as supported: each on the host engine, against the same ATen call on CPU.

As a script it runs all of them and writes a report of what agrees, and what does not and why:

    python tests/engine/coverage.py --report coverage.json
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import graph_quant  # noqa: F401
import torch
import torchair
from graph_quant.host.engine import HostGraph, UnsupportedGraphError, use
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torchair._ge_concrete_graph.fx2ge_converter import _declare_supported_converters
from torchair._ge_concrete_graph.supported_declaration import _TypedTensor

RTOL, ATOL = 1e-3, 1e-5
AGREES, DIFFERS, FAILS, NO_KERNEL = "agrees", "differs", "fails", "no kernel"
NOT_LOWERED, NO_REFERENCE = "not lowered", "no CPU kernel to compare with"
TARGET = 770
LARGE = 1 << 20
INTEGER_RANGES = ((1, 10), (0, 2), (0, 1))
RANDOM_OPS = re.compile(r"aten\.(bernoulli|rand|randn|randint|uniform|normal|native_dropout|randperm)\b")

# Where TorchAir's own lowering says something else than ATen: no kernel can make these agree.
EXPLAINED = {
    "aten._native_batch_norm_legit.default": "the graph returns running statistics where ATen returns the batch's",
}
# Why cases are not lowered, or compared.
STOPPED = {
    "aten._log_softmax.default": "half_to_float of what is no half: PyTorch refuses it",
    "aten._prelu_kernel.default": "the case passes a list for a tensor: PyTorch refuses it",
    "aten._prelu_kernel_backward.default": "the case passes a list for a tensor: PyTorch refuses it",
    "aten.batch_norm_backward_elemt.default": "PyTorch has no such kernel for CPUs to compare with",
    "aten.batch_norm_backward_reduce.default": "PyTorch has no such kernel for CPUs to compare with",
    "aten.batch_norm_elemt.default": "PyTorch infers nothing for it without a device of its own",
    "aten.fill.Tensor": "the case fills with a tensor of one dimension: PyTorch refuses it",
    "ceil": "of numbers that are read from tensors, which a graph does not return",
    "floor": "of numbers that are read from tensors, which a graph does not return",
    "sym_sum": "of numbers that are no symbols: nothing is left to compile",
}


@dataclass(frozen=True)
class Outcome:
    """What became of one declared case."""

    op: str
    case: int
    status: str
    reason: str = ""


@dataclass
class Case:
    """One declared case of an operator."""

    op: Any
    index: int
    declared: Any

    @property
    def name(self) -> str:
        return getattr(self.op, "__name__", str(self.op)) if not hasattr(self.op, "_schema") else str(self.op)

    @property
    def is_random(self) -> bool:
        return RANDOM_OPS.match(str(self.op)) is not None

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Fresh tensors with the declared dtypes, shapes and ranges; the same for each call."""
        return self._made(self.integers)

    @functools.cached_property
    def integers(self) -> tuple[int, int]:
        """The first range of integers that the operator accepts on CPU: some of them are indices."""
        for candidate in INTEGER_RANGES:
            args, kwargs = self._made(candidate)
            if not any(arg.dtype in (torch.int32, torch.int64) for arg in _tensors([args, list(kwargs.values())])):
                return candidate
            try:
                self.op(*args, **kwargs)
            except (IndexError, RuntimeError) as error:
                if "out of" not in str(error):
                    return candidate
            except Exception:
                return candidate
            else:
                return candidate
        return INTEGER_RANGES[0]

    def _made(self, integers: tuple[int, int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        torch.manual_seed(self.index)
        # Statistics of a normalisation are not negative.
        maker = _Maker(integers, positive="norm" in self.name)
        return (
            tuple(maker.make(arg) for arg in self.declared.args),
            {key: maker.make(value) for key, value in self.declared.kwargs.items()},
        )


def declared_cases() -> list[Case]:
    """The cases of ATen operators and of Python's arithmetic on sizes, in TorchAir's order.

    TorchAir also declares cases for ``npu::`` operators; those have no CPU kernel to compare with.
    """
    converters = _declare_supported_converters()
    return [
        Case(op, index, case)
        for op, converter in converters.items()
        if not str(op).startswith(("npu.", "npu_", "custom."))
        for index, case in enumerate(converter.supported_cases)
    ]


@dataclass(frozen=True)
class _Maker:
    integers: tuple[int, int]
    positive: bool

    def make(self, declared: Any) -> Any:
        if isinstance(declared, (list, tuple)):
            return type(declared)(self.make(item) for item in declared)
        if not isinstance(declared, _TypedTensor):
            return declared
        if declared.value is not None:
            return torch.tensor(declared.value, dtype=declared.dtype)
        dims = declared.dims
        shape = tuple(dims[0]) if len(dims) == 1 and isinstance(dims[0], (list, tuple)) else dims
        return self._fill(shape, declared.dtype, declared.value_range)

    def _fill(self, shape: tuple[int, ...], dtype: torch.dtype, value_range: Any) -> torch.Tensor:
        if value_range is not None:
            low, high = value_range
            if dtype.is_floating_point:
                return (torch.rand(shape) * (high - low) + low).to(dtype)
            return torch.randint(int(low), max(int(high), int(low) + 1), shape).to(dtype)
        if dtype == torch.bool:
            return torch.randint(0, 2, shape).bool()
        if dtype.is_complex:
            return torch.randn(shape, dtype=dtype)
        if not dtype.is_floating_point:
            return torch.randint(*self.integers, shape).to(dtype)
        return (torch.rand(shape) + 0.1 if self.positive else torch.randn(shape)).to(dtype)


def run_case(case: Case, engine: str = "eager") -> Outcome:
    """Lower and run one case, and compare."""
    loaded: list[HostGraph] = []
    try:
        actual = _lowered(case, engine, loaded)
    except UnsupportedGraphError as error:
        return Outcome(case.name, case.index, NO_KERNEL, str(error))
    except Exception as error:
        status = FAILS if loaded else NOT_LOWERED
        return Outcome(case.name, case.index, status, _first_lines(error))
    if not loaded:
        return Outcome(case.name, case.index, NOT_LOWERED, "nothing is computed, so that there is no GE graph")
    try:
        expected = _on_cpu(case, actual)
    except (RuntimeError, NotImplementedError) as error:
        return Outcome(case.name, case.index, NO_REFERENCE, _first_lines(error))
    reason = _difference(actual, expected, case.is_random)
    return Outcome(case.name, case.index, DIFFERS if reason else AGREES, reason)


def _lowered(case: Case, engine: str, loaded: list[HostGraph]) -> Any:
    """The result of the compiled call. Arithmetic on sizes is a graph only where sizes are symbols."""
    actual = None
    for dynamic in (False, True):
        torch._dynamo.reset()
        args, kwargs = case.arguments()
        with _counting(loaded), use(engine):
            actual = _compiled(case.op, dynamic)(*args, **kwargs)
        if loaded:
            break
    return actual


def _compiled(op: Any, dynamic: bool) -> Any:
    backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
    return torch.compile(lambda *a, **k: op(*a, **k), backend=backend, fullgraph=True, dynamic=dynamic)


def _on_cpu(case: Case, actual: Any) -> Any:
    """The same call on CPU; wider where CPU has no kernel for the declared dtype, or takes minutes for it."""
    args, kwargs = case.arguments()
    if case.name in REFERENCES:
        return REFERENCES[case.name](*args, **kwargs)
    large = any(arg.dtype == torch.float16 and arg.numel() > LARGE for arg in _tensors(args))
    if not large:
        try:
            return case.op(*args, **kwargs)
        except NotImplementedError:
            pass
    dtype = torch.float32 if large else torch.float64
    wide = case.op(*(_widened(arg, dtype) for arg in args), **{k: _widened(v, dtype) for k, v in kwargs.items()})
    pairs = zip(_tensors(wide), _tensors(actual), strict=True)
    return [expected.to(result.dtype) for expected, result in pairs]


def _matmul_backward(grad: torch.Tensor, left: torch.Tensor, right: torch.Tensor, mask: list[bool]) -> Any:
    leaves = [left.requires_grad_(), right.requires_grad_()]
    return torch.autograd.grad(left @ right, [leaf for leaf, wanted in zip(leaves, mask, strict=True) if wanted], grad)


# ATen has no CPU kernel for these.
REFERENCES = {"aten.matmul_backward.default": _matmul_backward}


def _widened(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_widened(item, dtype) for item in value)
    return value.to(dtype) if isinstance(value, torch.Tensor) and value.dtype != torch.bool else value


class _counting:  # noqa: N801
    """Notes the graphs that are loaded inside the block."""

    def __init__(self, loaded: list[HostGraph]) -> None:
        self.loaded = loaded
        self.load = HostGraph.load

    def __enter__(self) -> None:
        def load(graph: HostGraph, *args: Any, **kwargs: Any) -> None:
            self.load(graph, *args, **kwargs)
            self.loaded.append(graph)

        HostGraph.load = load  # type: ignore[method-assign]

    def __exit__(self, *exception: object) -> None:
        HostGraph.load = self.load  # type: ignore[method-assign]


def _difference(actual: Any, expected: Any, is_random: bool) -> str:
    results, wanted = list(_tensors(actual)), list(_tensors(expected))
    if len(results) != len(wanted):
        return f"{len(results)} results for {len(wanted)}"
    differing = (_compare(one, other, is_random) for one, other in zip(results, wanted, strict=True))
    return "; ".join(reason for reason in differing if reason)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (bool, int, float)):
        yield torch.tensor(value)


def _compare(actual: torch.Tensor, expected: torch.Tensor, is_random: bool) -> str:
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype} {tuple(actual.shape)} for {expected.dtype} {tuple(expected.shape)}"
    if is_random:
        return _compare_distributions(actual.double(), expected.double())
    exact = not (expected.is_floating_point() or expected.is_complex())
    try:
        torch.testing.assert_close(
            actual, expected, rtol=0 if exact else RTOL, atol=0 if exact else ATOL, equal_nan=True, check_stride=False
        )
    except AssertionError as error:
        return re.sub(r"\s+", " ", str(error))
    return ""


def _compare_distributions(actual: torch.Tensor, expected: torch.Tensor) -> str:
    """Means no further apart than six standard errors; for a few numbers that says little, for many a lot."""
    if actual.numel() < 2:
        return ""
    spread = max(expected.std().item(), actual.std().item(), 1e-3)
    apart = abs(actual.mean().item() - expected.mean().item())
    limit = 6 * spread * (2 / actual.numel()) ** 0.5
    return "" if apart <= limit else f"means are {apart:.3g} apart, {limit:.3g} can be chance"


def _first_lines(error: Exception) -> str:
    return re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")[:400]


def summarise(outcomes: list[Outcome]) -> dict[str, Any]:
    """Counts by status and the reasons of all that do not agree."""
    counts = Counter(outcome.status for outcome in outcomes)
    return {
        "cases": len(outcomes),
        "target": TARGET,
        "counts": dict(counts),
        "rest": [asdict(outcome) for outcome in outcomes if outcome.status != AGREES],
    }


def main() -> int:
    """Run every declared case; exit with 1 where fewer agree than the target."""
    parser = argparse.ArgumentParser(description="Run TorchAir's declared cases on the host engine.")
    parser.add_argument("--report", type=Path, help="write counts and reasons as JSON")
    parser.add_argument("--engine", choices=("eager", "inductor"), default="eager")
    parser.add_argument("--only", default="", help="only operators whose name contains this")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    cases = [case for case in declared_cases() if options.only in case.name]
    console = Console(stderr=True)
    outcomes: list[Outcome] = []
    for case in track(cases, "declared cases", console=console):
        outcomes.append(run_case(case, options.engine))
    report = summarise(outcomes)
    table = Table("operator", "case", "status", "why")
    for outcome in outcomes:
        if outcome.status != AGREES:
            explained = EXPLAINED if outcome.status == DIFFERS else STOPPED
            why = explained.get(outcome.op) or outcome.reason[:160]
            table.add_row(outcome.op, str(outcome.case), outcome.status, why)
    Console().print(table, report["counts"])
    if options.report:
        options.report.write_text(json.dumps(report, indent=1))
    return 0 if options.only or report["counts"].get(AGREES, 0) >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())

"""Runs each step of vllm-ascend's engine a second time, eagerly and from the same caches, and compares the two.

A step is the call of the model for a batch of requests. The engine goes on with the results of the graph, so that
each step is compared for its own sake and inherits no error of an earlier one from the eager run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from ...start.activate import run_after_import
from ..compare.metrics import compare
from .findings import Findings, different
from .kernels import find_first_difference

# The name of a result that differs, with its reference before it.
Wrong = tuple[str, tuple[Tensor, Tensor]]

_RUNNER = "vllm_ascend.worker.model_runner_v1"
_findings = Findings()
# The batch of the step that runs now; None while the engine starts, captures graphs or has nothing to do.
_scheduled: ContextVar[Any] = ContextVar("scheduled", default=None)


def watch() -> None:
    """Compare the steps of vllm-ascend's model runner, from its import on."""
    from ...host import capture

    capture.keep_results()
    run_after_import(_RUNNER, _patch_runner)


def _patch_runner() -> None:
    runner = sys.modules[_RUNNER].NPUModelRunner
    if hasattr(runner, "verified_steps"):
        return
    runner.verified_steps = 0
    execute, forward = runner.execute_model, runner._model_forward

    def execute_model(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        token = _scheduled.set(scheduler_output if scheduler_output.total_num_scheduled_tokens else None)
        try:
            return execute(self, scheduler_output, *args, **kwargs)
        finally:
            _scheduled.reset(token)

    def model_forward(self: Any, padded: int, *args: Any, **kwargs: Any) -> Any:
        def run() -> Any:
            return forward(self, padded, *args, **kwargs)

        scheduled = _scheduled.get()
        if scheduled is None or not _uses_graphs(self):
            return run()
        return _compare_step(self, run, scheduled, padded)

    runner.execute_model, runner._model_forward = execute_model, model_forward


def _uses_graphs(runner: Any) -> bool:
    compilation = runner.vllm_config.compilation_config
    return bool(int(compilation.mode)) or compilation.cudagraph_mode.name != "NONE"


def _compare_step(runner: Any, run: Callable[[], Any], scheduled: Any, padded: int) -> Any:
    from ...host import capture

    context = import_module("vllm.forward_context").get_forward_context()
    tokens, requests = scheduled.total_num_scheduled_tokens, len(scheduled.num_scheduled_tokens)
    mode = context.cudagraph_runtime_mode.name
    kind = f"{mode} graph" if mode != "NONE" else "compiled model"
    graph = f"{kind} for {padded} tokens ({requests} requests, {padded - tokens} rows of padding)"
    runner.verified_steps += 1
    caches = Caches(runner)
    before = caches.read()
    counters = _counters(context)
    with capture.trace(lambda: "") as graph_kernels:
        results = run()
        torch.npu.current_stream().synchronize()  # type: ignore[attr-defined]
    expected_after, own = caches.read(), _copy(results)
    caches.write(before)
    with ExitStack() as stack:
        stack.callback(_restore, context, _counters(context))
        _restore(context, counters)
        stack.enter_context(_eagerly(context))
        module_of_call = stack.enter_context(_track_modules(runner.get_model()))
        eager_kernels = stack.enter_context(capture.trace(module_of_call))
        expected = _copy(run())
        torch.npu.current_stream().synchronize()  # type: ignore[attr-defined]
    wrong = _first_result(own, expected, tokens, padded) or _first_cache(expected_after, caches.read())
    caches.write(expected_after)
    for tensor, copy in zip(_tensors(results), own, strict=True):
        tensor.copy_(copy)  # eager execution may have written the memory of a graph's results
    if wrong is None:
        _findings.add(graph, None)
    else:
        name, pair = wrong
        cause = find_first_difference(graph_kernels, eager_kernels, tokens, padded)
        _findings.add(graph, different(graph, runner.verified_steps, name, pair, cause))
    return results


def _first_result(graph: Sequence[Tensor], eager: Sequence[Tensor], tokens: int, padded: int) -> Wrong | None:
    for index, (result, reference) in enumerate(zip(graph, eager, strict=True)):
        rows = slice(tokens) if result.shape[0] == padded else slice(None)
        pair = reference[rows].cpu(), result[rows].cpu()
        if not compare(*pair).equal:
            return "hidden states" if index == 0 else f"result {index}", pair
    return None


def _first_cache(graph: Mapping[str, Tensor], eager: Mapping[str, Tensor]) -> Wrong | None:
    for name, result in graph.items():
        pair = eager[name].cpu(), result.cpu()
        if not compare(*pair).equal:
            return name, pair
    return None


def _tensors(results: Any) -> list[Tensor]:
    if isinstance(results, Tensor):
        return [results]
    if isinstance(results, (list, tuple)):
        return [tensor for item in results for tensor in _tensors(item)]
    tensors = getattr(results, "tensors", None)  # those that a rank of a pipeline passes on
    return _tensors(list(tensors.values())) if isinstance(tensors, dict) else []


def _copy(results: Any) -> list[Tensor]:
    return [tensor.clone() for tensor in _tensors(results)]


class Caches:
    """The blocks of the caches that belong to the requests of a batch."""

    def __init__(self, runner: Any) -> None:
        count = runner.input_batch.num_reqs
        tables = runner.input_batch.block_table.block_tables
        blocks = torch.cat([table.get_device_tensor(count).flatten().cpu() for table in tables])
        self._blocks = blocks.unique().long()
        self._caches: dict[str, Tensor] = {}
        for name, layer in runner.vllm_config.compilation_config.static_forward_context.items():
            for index, cache in enumerate(_tensors(getattr(layer, "kv_cache", None))):
                if cache.dim():
                    self._caches[f"cache {index} of {name}"] = cache

    def read(self) -> dict[str, Tensor]:
        """Return copies of the blocks."""
        return {name: cache[self._of(cache)].clone() for name, cache in self._caches.items()}

    def write(self, values: Mapping[str, Tensor]) -> None:
        """Write copies back."""
        for name, cache in self._caches.items():
            cache[self._of(cache)] = values[name]

    def _of(self, cache: Tensor) -> Tensor:
        return self._blocks[self._blocks < cache.shape[0]].to(cache.device)


def _counters(context: Any) -> dict[str, Any]:
    """Return the counters of layers that a run of the model advances."""
    return {
        name: value
        for source in (vars(context), context.additional_kwargs)
        for name, value in source.items()
        if isinstance(value, int) and not isinstance(value, bool)
    }


def _restore(context: Any, counters: Mapping[str, Any]) -> None:
    for name, value in counters.items():
        if name in context.additional_kwargs:
            context.additional_kwargs[name] = value
        else:
            setattr(context, name, value)


@contextmanager
def _eagerly(context: Any) -> Iterator[None]:
    """Let the model run without captured and compiled graphs."""
    before = context.cudagraph_runtime_mode, context.skip_compiled
    context.cudagraph_runtime_mode, context.skip_compiled = type(before[0]).NONE, True
    try:
        yield
    finally:
        context.cudagraph_runtime_mode, context.skip_compiled = before


@contextmanager
def _track_modules(model: nn.Module) -> Iterator[Callable[[], str]]:
    """Know the module that runs."""
    names = {id(module): name for name, module in model.named_modules()}
    running: list[str] = [""]

    def enter(module: nn.Module, _inputs: Any) -> None:
        running.append(names.get(id(module), running[-1]))

    def leave(_module: nn.Module, _inputs: Any, _results: Any) -> None:
        running.pop()

    hooks = [
        nn.modules.module.register_module_forward_pre_hook(enter),
        nn.modules.module.register_module_forward_hook(leave, always_call=True),
    ]
    try:
        yield lambda: running[-1]
    finally:
        for hook in hooks:
            hook.remove()

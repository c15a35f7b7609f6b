"""Finds the FX pass that changes a result in graphs that npugraph_ex and mode reduce-overhead capture.

Both compilers rewrite an FX graph pass by pass before they capture it. The graph after each pass that changed it is
kept. In a call that is verified, every version is run, and the first pass whose version differs is reported.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from ..report.report import ChangedByPass, Report
from .eager import Digest, copy_written, digest, preserve_global_state
from .fused import Fused

_Versions = list[tuple[str, fx.GraphModule]]
_VERSIONS: ContextVar[_Versions | None] = ContextVar("versions", default=None)


@contextmanager
def watch_passes(package: str, report: Report, calls: int | None) -> Iterator[None]:
    """Keep the versions of every graph that ``package`` compiles in the block, and compare them when it is called."""
    compiler = import_module(f"{package}.npu_fx_compiler")._NpuFxCompiler
    observer = import_module(f"{package}._utils.graph_transform_observer").GraphTransformObserver
    compile_graph, apply = compiler._get_compiled_gm, observer.apply_gm_pass

    def apply_and_record(self: Any, pass_fn: Callable[..., Any], pass_name: str, *args: Any, **kwargs: Any) -> Any:
        result = apply(self, pass_fn, pass_name, *args, **kwargs)
        _add_version(pass_name, self.gm)
        return result

    def compiled(self: Any, gm: fx.GraphModule, example_inputs: Any) -> Any:
        versions: _Versions = []
        before = _VERSIONS.set(versions)
        fused = Fused(gm)
        try:
            _add_version("", fused.module)
            return _WatchedGraph(compile_graph(self, gm, example_inputs), fused, versions, report, calls)
        finally:
            _VERSIONS.reset(before)

    compiler._get_compiled_gm, observer.apply_gm_pass = compiled, apply_and_record
    try:
        yield
    finally:
        compiler._get_compiled_gm, observer.apply_gm_pass = compile_graph, apply


def _add_version(name: str, module: fx.GraphModule) -> None:
    versions = _VERSIONS.get()
    if versions is not None and (not versions or str(versions[-1][1].graph) != str(module.graph)):
        versions.append((name, fx.GraphModule(module, copy.deepcopy(module.graph))))


class _WatchedGraph:
    """A compiled graph. Each call that is verified also runs every version of the graph."""

    def __init__(self, compiled: Any, fused: Fused, versions: _Versions, report: Report, calls: int | None) -> None:
        self._compiled = compiled
        self._fused = fused
        self._versions = versions
        self._report = report
        self._left = calls
        self._call = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._left == self._call:
            return self._compiled(*args, **kwargs)
        self._call += 1
        self._fused.check(args, self._report)
        changed = self._first_change(args)
        if changed is not None:
            self._report.passes.append(ChangedByPass(changed))
        return self._compiled(*args, **kwargs)

    def _first_change(self, args: tuple[Any, ...]) -> str | None:
        expected = None
        for name, module in self._versions:
            outcome = _run_version(module, args)
            if expected is None:
                expected = outcome
            elif outcome is not None and outcome != expected:
                return name
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)


def _run_version(module: fx.GraphModule, args: tuple[Any, ...]) -> list[Digest] | None:
    """Digests of the results and inputs after a run; None where a version holds calls that cannot run alone."""
    inputs = copy_written(args, None)
    with preserve_global_state(), torch.no_grad():
        try:
            results = module(*inputs)
        except Exception:
            return None
    return [digest(leaf) for leaf in (*pytree.tree_leaves(results), *inputs) if isinstance(leaf, Tensor)]

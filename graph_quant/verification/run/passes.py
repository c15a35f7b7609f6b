"""Verifies graphs that npugraph_ex and mode reduce-overhead capture, and names the pass that changed a result.

Both compilers rewrite an FX graph pass by pass before they capture it. The graph is kept as it was after each pass that
changed it; where a call gives something else than eager execution, each is run, and the first that differs is named.
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
from .eager import Digest, digest, separate, undisturbed

_Versions = list[tuple[str, fx.GraphModule]]
_NOTED: ContextVar[_Versions | None] = ContextVar("noted", default=None)


@contextmanager
def watched(package: str, report: Report, calls: int | None) -> Iterator[None]:
    """Keep the versions of every graph that ``package`` compiles in this block, and look at them when it is called."""
    compiler = import_module(f"{package}.npu_fx_compiler")._NpuFxCompiler
    observer = import_module(f"{package}._utils.graph_transform_observer").GraphTransformObserver
    compile_graph, apply = compiler._get_compiled_gm, observer.apply_gm_pass

    def noting(self: Any, pass_fn: Callable[..., Any], pass_name: str, *args: Any, **kwargs: Any) -> Any:
        result = apply(self, pass_fn, pass_name, *args, **kwargs)
        _note(pass_name, self.gm)
        return result

    def compiled(self: Any, gm: fx.GraphModule, example_inputs: Any) -> Any:
        versions: _Versions = []
        before = _NOTED.set(versions)
        try:
            _note("", gm)
            return _Watched(compile_graph(self, gm, example_inputs), versions, report, calls)
        finally:
            _NOTED.reset(before)

    compiler._get_compiled_gm, observer.apply_gm_pass = compiled, noting
    try:
        yield
    finally:
        compiler._get_compiled_gm, observer.apply_gm_pass = compile_graph, apply


def _note(name: str, module: fx.GraphModule) -> None:
    versions = _NOTED.get()
    if versions is not None and (not versions or str(versions[-1][1].graph) != str(module.graph)):
        versions.append((name, fx.GraphModule(module, copy.deepcopy(module.graph))))


class _Watched:
    """What a compiler made of a graph; each call that is verified is also run by every version of the graph."""

    def __init__(self, compiled: Any, versions: _Versions, report: Report, calls: int | None) -> None:
        self._compiled = compiled
        self._versions = versions
        self._report = report
        self._left = calls
        self._call = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._left == self._call:
            return self._compiled(*args, **kwargs)
        self._call += 1
        changed = self._first_change(args)
        if changed is not None:
            self._report.passes.append(ChangedByPass(changed))
        return self._compiled(*args, **kwargs)

    def _first_change(self, args: tuple[Any, ...]) -> str | None:
        expected = None
        for name, module in self._versions:
            found = _outcome(module, args)
            if expected is None:
                expected = found
            elif found is not None and found != expected:
                return name
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)


def _outcome(module: fx.GraphModule, args: tuple[Any, ...]) -> list[Digest] | None:
    """What a version gives and writes to; None where it holds calls that cannot be run by themselves."""
    given = separate(args, None)
    with undisturbed(), torch.no_grad():
        try:
            results = module(*given)
        except Exception:
            return None
    return [digest(leaf) for leaf in (*pytree.tree_leaves(results), *given) if isinstance(leaf, Tensor)]

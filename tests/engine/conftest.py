"""Fixtures of the engine's tests: compile with TorchAir, and inspect the graph that ran."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import graph_quant  # noqa: F401
import pytest
import torch
import torchair
from graph_quant.host.engine import HostGraph


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def compile_npu() -> Callable[..., Any]:
    """``torch.compile`` with TorchAir's backend; every operator must be in one graph."""

    def compile_function(function: Callable[..., Any], *, dynamic: bool = True, config: Any = None) -> Any:
        backend = torchair.get_npu_backend(compiler_config=config or torchair.CompilerConfig())
        return torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)

    return compile_function


@pytest.fixture
def loaded_graphs(monkeypatch: pytest.MonkeyPatch) -> list[HostGraph]:
    """The graphs that the engine loads during a test, in order."""
    graphs: list[HostGraph] = []
    load = HostGraph.load

    def noting(graph: HostGraph, *args: Any) -> None:
        load(graph, *args)
        graphs.append(graph)

    monkeypatch.setattr(HostGraph, "load", noting)
    return graphs


@pytest.fixture(scope="session")
def declared() -> ModuleType:
    """The runner of TorchAir's declared cases, which stands beside these tests."""
    path = Path(__file__).with_name("coverage.py")
    spec = importlib.util.spec_from_file_location("declared_cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["declared_cases"] = module
    spec.loader.exec_module(module)
    return module

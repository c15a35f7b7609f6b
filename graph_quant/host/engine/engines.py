"""The two engines of the host: ``eager`` starts at once, ``inductor`` compiles the imported graph first.

``GRAPH_QUANT_ENGINE`` chooses for a process, ``use`` for the graphs that a block of code makes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import fx

from ...ge import written_inputs
from ...settings import Setting
from . import inductor
from .call_cache import CallCache

EAGER: str = "eager"
INDUCTOR: str = "inductor"
ENGINES = (EAGER, INDUCTOR)
VARIABLE = "GRAPH_QUANT_ENGINE"

Run = Callable[..., Sequence[torch.Tensor]]


@functools.cache
def _parsed(text: str, source: str) -> str:
    engine = text.strip().lower() or EAGER
    if engine not in ENGINES:
        raise ValueError(f"{source}: the engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    return engine


_setting = Setting(VARIABLE, _parsed)
# The engine of a graph that is compiled now.
current = _setting.current


def use(engine: str) -> AbstractContextManager[None]:
    """Run graphs that are first called inside this block by ``engine``."""
    return _setting.use(engine, "graph_quant.host.engine.use")


def _has_unknown_sizes(module: fx.GraphModule) -> bool:
    """Whether an input has a dynamic size; static sizes make faster code."""
    data = [node.meta["ge"] for node in module.graph.nodes if node.op == "placeholder"]
    return any(node.is_size or min(node.proto.output_desc[0].shape.dim, default=0) < 0 for node in data)


def _writes_inputs(module: fx.GraphModule) -> bool:
    nodes = [node.meta["ge"] for node in module.graph.nodes if node.op == "call_function" and "ge" in node.meta]
    return any(written_inputs(node.proto) for node in nodes)


def compile_with_inductor(module: fx.GraphModule, eager: Run) -> Run:
    """Compile the graph with Inductor; after an error, ``eager`` runs again to name the failing node."""
    inductor.load()
    cache = None if _writes_inputs(module) else CallCache(_constants(module))

    def backend(graph: fx.GraphModule, inputs: list[Any]) -> Run:
        with inductor.configured():
            # Fused half-precision operators would keep float32 intermediates, which changes their bits.
            compiled: Run = torch._inductor.compile(graph, inputs, options={"emulate_precision_casts": True})
        return compiled if cache is None else cache.record_calls(compiled)

    # Otherwise each call checks guards on hundreds of globals that the kernels use.
    options: dict[str, Any] = {"guard_filter_fn": torch.compiler.skip_guard_on_globals_unsafe}
    compiled = torch.compile(module, backend=backend, dynamic=_has_unknown_sizes(module), options=options)

    def run(*inputs: Any) -> Sequence[torch.Tensor]:
        try:
            return compiled(*inputs) if cache is None else cache.run(compiled, inputs)
        except Exception:
            # Compiled code has lost its nodes. Eager code names the node at which the same error occurs.
            eager(*inputs)
            raise

    return run


def _constants(module: fx.GraphModule) -> list[torch.Tensor]:
    named = {node.target for node in module.graph.nodes if node.op == "get_attr"}
    return [getattr(module, name) for name in named]

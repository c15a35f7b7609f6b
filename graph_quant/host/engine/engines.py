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
from .call_cache import Shortcuts

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
# The engine of a graph made now.
current = _setting.current


def use(engine: str) -> AbstractContextManager[None]:
    """Run graphs that are first called inside this block by ``engine``."""
    return _setting.use(engine, "graph_quant.host.engine.use")


def _has_unknown_sizes(module: fx.GraphModule) -> bool:
    """Whether a size of an input is open; fixed sizes make faster code."""
    data = [node.meta["ge"] for node in module.graph.nodes if node.op == "placeholder"]
    return any(node.is_size or min(node.proto.output_desc[0].shape.dim, default=0) < 0 for node in data)


def _writes_inputs(module: fx.GraphModule) -> bool:
    nodes = [node.meta["ge"] for node in module.graph.nodes if node.op == "call_function" and "ge" in node.meta]
    return any(written_inputs(node.proto) for node in nodes)


def with_inductor(module: fx.GraphModule, eager: Run) -> Run:
    """The graph compiled by Inductor; ``eager`` is asked what an error is about."""
    inductor.load()
    shortcuts = None if _writes_inputs(module) else Shortcuts(_constants(module))

    def by_inductor(graph: fx.GraphModule, inputs: list[Any]) -> Run:
        with inductor.told():
            # Fused half-precision operators would keep float32 between them, and give other bits than one by one.
            compiled: Run = torch._inductor.compile(graph, inputs, options={"emulate_precision_casts": True})
        return compiled if shortcuts is None else shortcuts.noting(compiled)

    # Else hundreds of names of this package and of torch that kernels go by are looked up again at each call.
    options: dict[str, Any] = {"guard_filter_fn": torch.compiler.skip_guard_on_globals_unsafe}
    compiled = torch.compile(module, backend=by_inductor, dynamic=_has_unknown_sizes(module), options=options)

    def run(*inputs: Any) -> Sequence[torch.Tensor]:
        try:
            return compiled(*inputs) if shortcuts is None else shortcuts.run(compiled, inputs)
        except Exception:
            # Compiled code no longer knows its nodes. Eager code does, and stops at the same fault.
            eager(*inputs)
            raise

    return run


def _constants(module: fx.GraphModule) -> list[torch.Tensor]:
    named = {node.target for node in module.graph.nodes if node.op == "get_attr"}
    return [getattr(module, name) for name in named]

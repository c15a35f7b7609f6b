"""The two engines of the host: ``eager`` starts at once, ``inductor`` compiles the imported graph first.

``GRAPH_QUANT_ENGINE`` chooses for a process, ``use`` for the graphs that a block of code makes.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

import torch
from torch import fx

from ...ge import Node
from ...reference.matmul import int8_product
from .errors import NodeError

EAGER, INDUCTOR = "eager", "inductor"
ENGINES = (EAGER, INDUCTOR)
VARIABLE = "GRAPH_QUANT_ENGINE"

Run = Callable[..., Sequence[torch.Tensor]]
_chosen: ContextVar[str | None] = ContextVar("graph_quant_engine", default=None)


def current() -> str:
    """The engine of a graph made now."""
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    return _checked(os.environ.get(VARIABLE, "").strip().lower() or EAGER, VARIABLE)


@contextmanager
def use(engine: str) -> Iterator[None]:
    """Run graphs that are first called inside this block by ``engine``."""
    token = _chosen.set(_checked(engine, "graph_quant.host.engine.use"))
    try:
        yield
    finally:
        _chosen.reset(token)


def _checked(engine: str, source: str) -> str:
    if engine not in ENGINES:
        raise ValueError(f"{source}: the engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    return engine


def make_callable(module: fx.GraphModule, engine: str) -> Run:
    """The graph's function of its inputs; errors name the node that raised them."""
    eager = _naming_nodes(module)
    return _with_inductor(module, eager) if engine == INDUCTOR else eager


def _naming_nodes(module: fx.GraphModule) -> Run:
    forward = module.forward
    code = module.forward.__func__.__code__  # type: ignore[attr-defined]

    def run(*inputs: Any) -> Sequence[torch.Tensor]:
        try:
            return forward(*inputs)  # type: ignore[no-any-return]
        except Exception as error:
            node = _failing_node(module, code, error.__traceback__)
            if node is None:
                raise
            raise NodeError(node, error) from error

    return run


def _failing_node(module: fx.GraphModule, code: Any, trace: TracebackType | None) -> Node | None:
    """The GE node whose line of the generated code was running."""
    while trace is not None and trace.tb_frame.f_code is not code:
        trace = trace.tb_next
    lines = module._lineno_map
    if trace is None or lines is None:
        return None
    line = trace.tb_lineno - module._prologue_start
    index = next((lines[at] for at in range(line, 0, -1) if lines.get(at) is not None), None)
    if index is None:
        return None
    return list(module.graph.nodes)[index].meta.get("ge")


def _has_unknown_sizes(module: fx.GraphModule) -> bool:
    """Whether a size of an input is open; fixed sizes make faster code."""
    data = [node.meta["ge"] for node in module.graph.nodes if node.op == "placeholder"]
    return any(node.is_size or min(node.proto.output_desc[0].shape.dim, default=0) < 0 for node in data)


def _load_inductor() -> None:
    """Import what torch_npu adds to Inductor, without its remark that Triton is missing: code for CPUs needs none."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "triton-ascend is not installed")
        importlib.import_module("torch_npu._inductor")
    decompositions = importlib.import_module("torch._inductor.decomposition").decompositions
    if int8_product.STEP not in decompositions:
        # What is not decomposed is called as it is; Inductor takes no operator for both unless it is told to.
        lowering = importlib.import_module("torch._inductor.lowering")
        lowering.make_fallback(int8_product.STEP, override_decomp=True)
        decompositions[int8_product.STEP] = int8_product.as_int_mm


def _with_inductor(module: fx.GraphModule, eager: Run) -> Run:
    _load_inductor()
    # Fused half-precision operators would keep float32 between them, and give other bits than one after the other.
    exact: dict[str, Any] = {"emulate_precision_casts": True}
    compiled = torch.compile(module, backend="inductor", dynamic=_has_unknown_sizes(module), options=exact)

    def run(*inputs: Any) -> Sequence[torch.Tensor]:
        try:
            return compiled(*inputs)
        except Exception:
            # Compiled code no longer knows its nodes. Eager code does, and stops at the same fault.
            eager(*inputs)
            raise

    return run

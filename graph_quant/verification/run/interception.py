"""Patches TorchAir and npugraph_ex so that what they compile inside a block is verified."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import fx

from ... import fusions
from ...releases.compilers import compilers
from ...start.preload import HOST, chosen
from ..report.report import Report, Thresholds
from .fused import Fused
from .fx_passes import watch_passes
from .graph import VerifiedGraph
from .lowering import record_lowering
from .progress import Progress, silent
from .region import Region


@contextmanager
def capture(
    *,
    max_error: float | None = None,
    min_sqnr: float | None = None,
    calls: int | None = 1,
    title: str = "captured graphs",
    progress: Progress = silent,
) -> Iterator[Report]:
    """Verify what the code of a ``with`` block compiles for the NPU.

    The results of compiled code are compared with the same code run eagerly, in every call. In the first calls, every
    node of its graphs is compared as well, with the operator that it was lowered from.

    Args:
        max_error: The largest absolute error that is accepted. Without limits, bits must be equal.
        min_sqnr: The smallest ratio of signal to quantisation noise that is accepted, in dB.
        calls: The number of calls of each graph in which nodes are compared; None for all.
        title: The title of the report.
        progress: How progress is shown; ``on_terminal`` draws a bar.

    Yields:
        The report. It is complete when the block ends.

    Examples:
        >>> with graph_quant.verification.capture() as report:
        ...     compiled_model(x)
        >>> report.check()
    """
    import torchair._ge_concrete_graph.fx2ge_converter as converter

    modules = compilers()
    compiler_type = modules[0]._NpuFxCompiler
    compile_region = [module._compile_graph_with_aot for module in modules]
    report = Report(_add_rank(title), device_name(), Thresholds(max_error, min_sqnr))
    graph_type = converter.GeConcreteGraph
    parse_node, generate = graph_type.parse_node, compiler_type._gen_compiled_gm

    def verify_graph(self: Any, gm: fx.GraphModule, example_inputs: Any, observer: Any) -> Any:
        compiled = generate(self, gm, example_inputs, observer)
        if not isinstance(compiled, graph_type):
            return compiled  # configured to run eagerly
        fused = Fused(gm)

        def compile_again(module: fx.GraphModule) -> Any:
            with fusions.use(fusions.OFF) if fused.is_fused else nullcontext():
                return generate(self, module, example_inputs, observer)

        return VerifiedGraph(fused, compiled, compile_again, report, calls, progress)

    def verify_region(compile_one: Callable[..., Any]) -> Callable[..., Any]:
        return lambda gm, *args, **kwargs: Region(gm, compile_one(gm, *args, **kwargs), report, calls, progress)

    graph_type.parse_node, compiler_type._gen_compiled_gm = record_lowering(parse_node), verify_graph
    for module, compile_one in zip(modules, compile_region, strict=True):
        vars(module)["_compile_graph_with_aot"] = verify_region(compile_one)
    try:
        with ExitStack() as watching:
            if len(modules) > 1:
                watching.enter_context(watch_passes("npugraph_ex", report, calls))
            yield report
    except BaseException as error:
        report.settle(error)
        raise
    else:
        report.settle(report.stopped)
    finally:
        for module, compile_one in zip(modules, compile_region, strict=True):
            vars(module)["_compile_graph_with_aot"] = compile_one
        graph_type.parse_node, compiler_type._gen_compiled_gm = parse_node, generate


def device_name() -> str:
    """The name of the device that runs the graphs."""
    return "the host NPU" if chosen() is HOST else f"npu:{torch.npu.current_device()}"  # type: ignore[attr-defined]


def _add_rank(title: str) -> str:
    """The title of a report, with the rank of this process where there are several."""
    ranks = os.environ.get("WORLD_SIZE", "1")
    return title if ranks == "1" else f"{title}, rank {os.environ.get('RANK', '0')} of {ranks}"

"""Fusions: subgraphs of ATen operators become the npu operators that compute them.

Off by default, because a fused operator rounds differently. ``GRAPH_QUANT_FUSE`` and ``use`` select them, for the
backends npu and npugraph_ex alike.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ..settings import Setting

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from .apply import FusionReport

__all__ = [
    "NAMES",
    "OFF",
    "ON",
    "VARIABLE",
    "apply_selected",
    "collect",
    "current",
    "fuse",
    "fuse_current",
    "prepare_current",
    "use",
]

ON, OFF = "on", "off"
VARIABLE = "GRAPH_QUANT_FUSE"
# In the order in which they are applied: a later one reads the results of an earlier one. Each is a module.
NAMES = (
    "rms_norm",
    "gemma_rms_norm",
    "add_rms_norm",
    "common_dynamic_quant",
    "common_quantize",
    "merged_products",
    "add_rms_norm_dynamic_quant",
    "add_rms_norm_quant",
    "rotary_mul",
    "rotary_halves",
    "token_heads",
    "cache_update",
    "joined_parts",
    "infer_attention",
    "sink_attention",
    "attention_layout",
    "row_views",
    "pointwise_rows",
    "swiglu",
    "geglu",
    "dequant_swiglu_quant",
    "moe_gating_top_k",
    "clipped_swiglu",
    "grouped_experts",
)


@functools.cache
def _parsed(setting: str, source: str) -> tuple[str, ...]:
    words = [word.strip().lower() for word in setting.split(",") if word.strip()]
    if words in ([], [OFF]):
        return ()
    if words == [ON]:
        return NAMES
    unknown = [word for word in words if word not in NAMES]
    if unknown:
        raise ValueError(f"{source}: must be {ON}, {OFF} or some of {', '.join(NAMES)}, got {unknown[0]!r}")
    return tuple(name for name in NAMES if name in words)


_setting = Setting(VARIABLE, _parsed)
# The names of the fusions that a graph compiled now goes through, in their order.
current = _setting.current


def use(fusions: str = ON) -> AbstractContextManager[None]:
    """Select the fusions for the functions that are compiled inside a ``with`` block.

    Args:
        fusions: ``"on"``, ``"off"``, or names of fusions separated by commas.

    Returns:
        A context manager. It takes precedence over ``GRAPH_QUANT_FUSE``.

    Raises:
        ValueError: A name is not the name of a fusion.

    Examples:
        >>> with graph_quant.fusions.use("on"):
        ...     compiled(x)
    """
    return _setting.use(fusions, "graph_quant.fusions.use")


_reports: ContextVar[list[FusionReport] | None] = ContextVar("_reports", default=None)


def fuse(gm: GraphModule, fusions: str = ON) -> FusionReport:
    r"""Fuse an ATen graph in place.

    Args:
        gm: A graph module of ATen and npu operators with metadata, as ``make_fx``, ``torch.export`` and the backends of
            ``torch.compile`` have it.
        fusions: ``"on"`` for all, or names of fusions separated by commas.

    Returns:
        What was fused, what looked like a pattern and was not fused, with the reason, and the number of calls before
        and after.

    Raises:
        ValueError: A name is not the name of a fusion.

    Examples:
        >>> report = graph_quant.fuse(gm)
        >>> print(*report.not_fused, sep="\n")
    """
    with use(fusions):
        return apply_selected(gm, current())


def apply_selected(gm: GraphModule, names: Sequence[str]) -> FusionReport:
    """Fuse an ATen graph in place by fusions with these names."""
    from .apply import fuse_graph

    return fuse_graph(gm, names)


def fuse_current(gm: GraphModule) -> None:
    """Fuse the graph that a backend compiles by the fusions in effect, and hand the report to ``collect``."""
    names = current()
    if not names:
        return
    report = apply_selected(gm, names)
    reports = _reports.get()
    if reports is not None:
        reports.append(report)


def prepare_current(gm: GraphModule) -> AbstractContextManager[None]:
    """While the block compiles Dynamo's graph, the floats of modules are constants in it, if fusions are selected."""
    if not current():
        return nullcontext()
    from .module_numbers import constant_module_numbers

    return constant_module_numbers(gm)


@contextmanager
def collect() -> Iterator[list[FusionReport]]:
    """Collect the reports of the graphs that the block compiles, in a list that grows with each."""
    reports: list[FusionReport] = []
    token = _reports.set(reports)
    try:
        yield reports
    finally:
        _reports.reset(token)

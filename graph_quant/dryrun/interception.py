"""Intercepts TorchAir's compiler: graphs are lowered and recorded, and calls return zeros."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from .. import fusions
from ..dumps import from_graph
from ..releases.compilers import compilers, stand_in_node
from ..start.compiling import source_of
from .findings import DryGraph, DryRun, DryRunFinding
from .missing_kernels import missing_eager_kernels, missing_ge_kernels
from .precision import float_contractions, float_islands
from .refusals import Refusals

# Dynamo's reasons for a break at a data-dependent branch.
_BRANCHES = ("generic_jump", "Data-dependent branching")


@contextmanager
def intercept(run: DryRun) -> Iterator[None]:
    """Record in ``run`` what the block compiles for the NPU, without executing it."""
    import torchair._ge_concrete_graph.fx2ge_converter as converter

    graph_type = converter.GeConcreteGraph
    unlowered: list[DryRunFinding] = []
    refusals = Refusals(run)
    broken_before = Counter(counters["graph_break"])
    replaced: list[tuple[Any, str, Any]] = []

    def replace(holder: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        replaced.append((holder, name, getattr(holder, name)))
        setattr(holder, name, wrap(getattr(holder, name)))

    replace(graph_type, "parse_node", lambda parse: _continue_on_error(parse, unlowered))
    for module in compilers():
        replace(
            module._NpuFxCompiler,
            "_gen_compiled_gm",
            lambda generate: _record_graphs(generate, graph_type, run, unlowered),
        )
        replace(module, "_compile_graph_with_aot", lambda compile_region: _record_breaks(compile_region, run, refusals))
    try:
        yield
    finally:
        for holder, name, before in reversed(replaced):
            setattr(holder, name, before)
        refusals.collect()
        run.breaks += _breaks_without_graph(run, Counter(counters["graph_break"]) - broken_before)


def _continue_on_error(parse: Callable[..., Any], unlowered: list[DryRunFinding]) -> Callable[..., Any]:
    """Wrap ``parse_node``: record an operator that does not lower and continue with a mock node."""

    def parse_node(self: Any, target: Any, args: Any, kwargs: Any, meta_outputs: Any) -> Any:
        from torchair._ge_concrete_graph.fx2ge_converter import set_ge_outputs

        before = len(self.graph.op)
        try:
            return parse(self, target, args, dict(kwargs), meta_outputs)
        except Exception as error:
            del self.graph.op[before:]
            reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
            unlowered.append(DryRunFinding(f"{target}: {reason}", _source_line(self._converter_ctx.node)))
            mock = stand_in_node(self, target, args, kwargs)
            if meta_outputs is not None:
                set_ge_outputs(mock, meta_outputs)
            return mock

    return parse_node


def _record_graphs(
    generate: Callable[..., Any], graph_type: type, run: DryRun, unlowered: list[DryRunFinding]
) -> Callable[..., Any]:
    def generated(self: Any, gm: fx.GraphModule, example_inputs: Any, observer: Any) -> Any:
        unlowered.clear()
        with fusions.collect() as reports:
            compiled = generate(self, gm, example_inputs, observer)
        if isinstance(compiled, graph_type):
            run.graphs.append(_ge_graph(compiled, gm, unlowered))  # type: ignore[attr-defined]
        else:
            run.graphs.append(_captured_graph(gm, len(run.graphs)))
        run.graphs[-1].fusions = reports[0] if reports else None
        return _ZeroOutputs(gm)

    return generated


def _ge_graph(compiled: Any, gm: fx.GraphModule, unlowered: list[DryRunFinding]) -> DryGraph:
    dump = from_graph(compiled.graph)
    stand_ins = {finding.what.partition(":")[0] for finding in unlowered}
    return DryGraph(
        compiled.graph.name,
        dump,
        _operators(gm),
        _sizes(gm),
        list(unlowered),
        [finding for finding in missing_ge_kernels(compiled.graph) if finding.what not in stand_ins],
        float_contractions(dump),
        float_islands(dump),
    )


def _captured_graph(gm: fx.GraphModule, number: int) -> DryGraph:
    return DryGraph(f"captured_{number}", None, _operators(gm), _sizes(gm), no_kernel=missing_eager_kernels(gm))


def _operators(gm: fx.GraphModule) -> Counter[str]:
    return Counter(str(node.target) for node in gm.graph.nodes if node.op == "call_function" and _computes(node))


def _computes(node: fx.Node) -> bool:
    return isinstance(node.target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator))


def _sizes(gm: fx.GraphModule) -> dict[str, int]:
    """The sizes of symbols in the call that is traced."""
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        sizes = value.shape if isinstance(value, Tensor) else [value]
        for size in sizes:
            if isinstance(size, torch.SymInt):
                known = size.node.shape_env.backed_var_to_val
                return {str(symbol): int(value) for symbol, value in known.items()}
    return {}


def _record_breaks(compile_region: Callable[..., Any], run: DryRun, refusals: Refusals) -> Callable[..., Any]:
    def compiled(gm: fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        reason = getattr(gm, "compile_subgraph_reason", None)
        if reason is not None and getattr(reason, "graph_break", False):
            run.breaks.append(_break_finding(reason))
        refusals.collect()
        return compile_region(gm, *args, **kwargs)

    return compiled


def _breaks_without_graph(run: DryRun, reasons: Counter[str]) -> list[DryRunFinding]:
    """Breaks without a graph before them, or in functions that Dynamo does not compile at all."""
    known = {finding.what for finding in run.breaks}
    return [DryRunFinding(text, "") for text in dict.fromkeys(map(_break_reason, reasons)) if text not in known]


def _break_reason(reason: str) -> str:
    """The first line of Dynamo's reason for a graph break."""
    text = next((line.strip() for line in reason.splitlines() if line.strip()), "")
    return "a branch on the values of a tensor" if text.startswith(_BRANCHES) else text


def _break_finding(reason: Any) -> DryRunFinding:
    text = _break_reason(str(reason.reason))
    frame = reason.user_stack[-1] if reason.user_stack else None
    return DryRunFinding(text, f"{frame.filename}:{frame.lineno}: {frame.line}" if frame is not None else "")


def _source_line(node: fx.Node) -> str:
    source = source_of(node)
    return f"{source.file}:{source.line}: {source.code}" if source.file else ""


class _ZeroOutputs:
    """Returns zeros of the right dtypes and shapes for calls of a graph; inputs are not changed."""

    def __init__(self, module: fx.GraphModule) -> None:
        self._module = module

    def __call__(self, *args: Any) -> Any:
        fake = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
        with fake as mode, torch.no_grad():
            fakes = [
                mode.from_tensor(value, static_shapes=True) if isinstance(value, Tensor) else value for value in args
            ]
            results = self._module(*fakes)
        return [_make_zeros(value) if isinstance(value, Tensor) else _concrete(value) for value in results]


def _make_zeros(fake: Tensor) -> Tensor:
    shape, strides = ([_concrete(size) for size in sizes] for sizes in (fake.shape, fake.stride()))
    return torch.empty_strided(shape, strides, dtype=fake.dtype, device=fake.device).zero_()


def _concrete(value: Any) -> Any:
    """Replace a data-dependent size by its value with every unbacked symbol set to 1."""
    if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return value
    expression = value.node.expr
    return value.node.pytype(expression.subs(dict.fromkeys(expression.free_symbols, 1)))

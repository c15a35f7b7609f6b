"""The steps from Dynamo's graph to a graph that runs, and what this package adds to TorchAir in each.

1. Dynamo's graph arrives; the paths of its weights are stored. Operators of other packages that this one decomposes
   are looked up now, because they may be defined after the backend was created.
2. Branches and counted loops are inlined. Results that are views of others leave the graph, which cannot alias memory,
   and are taken after it has run.
3. Settings that the host does not support are refused, and operators that nothing lowers.
4. FX nodes become GE nodes. Deferred views are materialised. The source of each node is recorded, and the layout of the
   operands of a product in eager mode, which a GE graph does not state. Whether a result is empty is decided without a
   guard. A generator's seed is read in each call.
5. The passes run on the GE graph.
6. On the host, the engine executes it.

The code for branches, views and passes runs only for graphs that have some. With CANN, only 2, 5 and the part of 4
about views and sizes apply.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule

from .. import converters, meta, passes
from ..converters.control_flow import CONTROL_FLOW, flatten
from ..converters.decompositions import OUTSIDE, outside
from ..converters.unsupported import WITHOUT_NODES, check_results, refusal
from ..ge import (
    MODULE_PATH,
    SOURCE_LINE,
    Source,
    layouts_of,
    module_path,
    note_output_devices,
    sources_of,
    weight_path,
)
from ..host.engine import NeedsNpuError
from ..meta import require_described
from ..releases.alternatives import source_name
from . import aliases, dumping, layouts, seeds, views
from .compile_progress import progress

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNKNOWN = Source()
# The path of each input that is a weight, in the order in which Dynamo's graph takes them.
_weights: ContextVar[list[str]] = ContextVar("_weights")
# A frame of a stack trace, and its code.
_FRAME = re.compile(
    r'File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>[^\n]*)(?:\n *(?!File "|$)(?P<code>[^\n]*))?'
)
# Code between a user's call and its operators: this package with its operators, and torch.
_OWN_FOLDERS = tuple(
    f"{Path(module.__file__).parent}{os.sep}"
    for module in (sys.modules["graph_quant"], meta, converters, torch)
    if module.__file__
)


def extend(*, on_host: bool) -> None:
    """Apply all additions to TorchAir, which is imported and has this package's converters."""
    converter = sys.modules["torchair._ge_concrete_graph.fx2ge_converter"]
    compiler = sys.modules["torchair.npu_fx_compiler"]
    if on_host:
        _use_host_engine(sys.modules["torchair.core._backend"])
        _record_sources(converter, compiler)
        converter.GeConcreteGraph.parse_node = _with_chip_check(converter.GeConcreteGraph.parse_node)
        compiler._NpuFxCompiler._gen_compiled_gm = _with_config_check(compiler._NpuFxCompiler._gen_compiled_gm)
    vars(compiler)["_compile_graph_with_aot"] = _with_outside_decompositions(vars(compiler)["_compile_graph_with_aot"])
    compiler._NpuFxCompiler._get_compiled_gm = _inlining_control_flow(
        _with_aliased_results(compiler._NpuFxCompiler._get_compiled_gm)
    )
    vars(converter)["is_zero_element_tensor"] = _is_empty
    views.patch(_materialize, _exclude_copying_reshapes)
    seeds.patch()
    graph = converter.GeConcreteGraph
    graph.optimize_graph_without_runtime = _with_passes(graph.optimize_graph_without_runtime)


def _with_chip_check(parse_node: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse operators that are not described for the chip, also those that TorchAir lowers alone."""

    def parse_described(self: Any, target: Any, *args: Any) -> Any:
        progress.advance()
        if isinstance(target, OpOverload) and target.namespace not in ("aten", "prims"):
            require_described(target.name())
        return parse_node(self, target, *args)

    return parse_described


def _use_host_engine(backend: Any) -> None:
    """Replace TorchAir's calls of CANN by the host engine. Kernels are loaded with the first graph."""
    native = vars(backend)["_torchair"]
    native.InitializeGraphEngine = lambda options: None  # noqa: ARG005
    native.FinalizeGraphEngine = lambda: None
    native.check_cann_compat = lambda op_type, inputs, attributes: ""  # noqa: ARG005
    native.get_registered_ir_def = _registered_ir
    native.export = _export
    vars(backend)["TorchNpuGraph"] = _make_executor


def _make_executor(name: str = "") -> Any:
    from ..host.engine import HostGraph

    return HostGraph(name)


def _registered_ir(op_type: str) -> Any:
    from ..host.engine import registered_ir

    return registered_ir(op_type)


def _export(serialized_model: bytes, options: Mapping[str, str]) -> None:
    """Write the model where TorchAir's export asks for it; an .air file is the serialised ModelDef."""
    path = Path(options["export_path_dir"]) / options["export_name"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(serialized_model)


def _with_outside_decompositions(compile_region: Callable[..., Any]) -> Callable[..., Any]:
    def compile_with_decompositions(
        gm: GraphModule, compiler: Any, inputs: Any, config: Any = None, table: Any = None, **settings: Any
    ) -> Any:
        graphs = (inner.graph for inner in gm.modules() if isinstance(inner, GraphModule))
        if any("::".join(str(node.target).split(".")[:2]) in OUTSIDE for graph in graphs for node in graph.nodes):
            table = {**outside(config), **(table or {})}
        progress.enter("decomposing")
        with dumping.named_after(gm):
            return compile_region(gm, compiler, inputs, config, table, **settings)

    return compile_with_decompositions


def _inlining_control_flow(compile_module: Callable[..., Any]) -> Callable[..., Any]:
    def without_control_flow(self: Any, gm: GraphModule, example_inputs: Any) -> Any:
        if any(node.target in CONTROL_FLOW for node in gm.graph.nodes):
            flatten(gm)
        progress.enter("lowering", sum(node.op == "call_function" for node in gm.graph.nodes))
        if any(node.target in WITHOUT_NODES for node in gm.graph.nodes):
            check_results(gm)
        try:
            return compile_module(self, gm, example_inputs)
        except (NotImplementedError, RuntimeError) as error:
            refused = refusal(error)
            if refused is None:
                raise
            raise refused from None

    return without_control_flow


def _with_aliased_results(compile_module: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap TorchAir's compiler so that results alias each other as the module's do."""

    def compile_with_aliases(self: Any, gm: GraphModule, example_inputs: Any) -> Any:
        is_run = self.config.mode.value == "max-autotune" and not self.config.export.export_mode
        # Views share memory, and so do results that are copied into an input.
        targets = [node.target for node in gm.graph.nodes if isinstance(node.target, OpOverload)]
        may_share = any(target.is_view or target is torch.ops.aten.copy_.default for target in targets)
        views = aliases.extract_views(gm) if is_run and may_share else None
        compiled = compile_module(self, gm, example_inputs)
        return compiled if views is None else aliases.WithViews(compiled, views)

    return compile_with_aliases


def _with_config_check(generate: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap TorchAir's compiler so that its configuration is checked before it lowers a graph."""
    from ..host.device import NO_GRADIENT, missing_gradient_error

    def raising(operator: str) -> Callable[..., Any]:
        def backward(*_args: Any, **_kwargs: Any) -> Any:
            raise missing_gradient_error(operator)

        return backward

    def _gen_compiled_gm(self: Any, gm: GraphModule, *args: Any, **kwargs: Any) -> Any:
        check_config(self.config)
        for node in gm.graph.find_nodes(op="call_function", target=NO_GRADIENT):
            return raising(str(node.args[2]))  # such a graph is never computed
        return generate(self, gm, *args, **kwargs)

    return _gen_compiled_gm


def check_config(config: Any) -> None:
    """Raise NeedsNpuError for the first setting of a CompilerConfig that the host does not support."""
    if config.aoe_config.aoe_mode.value is not None:
        raise NeedsNpuError("aoe_config.aoe_mode, which tunes kernels on a device,")
    if config.dump_config.enable_dump.value == "1":
        raise NeedsNpuError(
            "dump_config.enable_dump, which copies tensors out of device kernels,", "use debug.data_dump"
        )


def _is_empty(tensor: Any) -> bool:
    """Whether a tensor is known to be empty when the graph is built; with data-dependent sizes it is not known."""
    return isinstance(tensor, torch.Tensor) and any(isinstance(size, int) and size == 0 for size in tensor.size())


def _materialize(argument: Any, graph: Any) -> Any:
    """Return an operator's argument with its deferred views materialised."""
    if isinstance(argument, sys.modules[views.MODULE].ValuePack):
        argument = argument.npu
    if isinstance(argument, (list, tuple)):
        return [_materialize(item, graph) for item in argument]
    return views.materialize_view(argument, graph) if hasattr(argument, "view_faketensor") else argument


def _exclude_copying_reshapes(is_view: Callable[..., bool]) -> Callable[..., bool]:
    """Wrap TorchAir's test for views, so that reshapes which copy are none: deferred views come before them."""

    def decide(target: Any, args: Any, meta_outputs: Any) -> bool:
        return is_view(target, args, meta_outputs) and (
            str(target) not in views.RESHAPES or views.is_view_reshape(*args[:2])
        )

    return decide


def _with_passes(optimize: Callable[..., Any]) -> Callable[..., Any]:
    def optimize_graph_without_runtime(self: Any, *args: Any, observer: Any = None, **kwargs: Any) -> Any:
        progress.enter(f"simplifying {len(self.graph.op)} nodes")
        done = optimize(self, *args, observer=observer, **kwargs)
        names = passes.current()
        if names:
            passes.simplify(self, names, observer)
        dumping.write(self)
        return done

    return optimize_graph_without_runtime


def _record_sources(converter: Any, compiler: Any) -> None:
    """Let TorchAir record the source of each node and the device of each output beside the graph."""
    graph = converter.GeConcreteGraph
    graph.converter_context = _with_sources(graph.converter_context)
    graph.parse_output = _with_output_devices(graph.parse_output)
    graph.dump = _with_module_paths(graph.dump)
    compiler._compile_graph_with_aot = _with_weight_paths(compiler._compile_graph_with_aot)
    # Records the same profiler event, at no cost without a profiler; the other takes as long as a small kernel.
    compiler.record_function = torch._C._profiler._RecordFunctionFast


def _with_weight_paths(compile_region: Callable[..., Any]) -> Callable[..., Any]:
    def compile_with_paths(gm: GraphModule, *args: Any, **kwargs: Any) -> Any:
        sources = (getattr(node, "_dynamo_source", None) for node in gm.graph.find_nodes(op="placeholder"))
        token = _weights.set([weight_path(source_name(source)) if source else "" for source in sources])
        try:
            return compile_region(gm, *args, **kwargs)
        finally:
            _weights.reset(token)

    return compile_with_paths


def _with_sources(context: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def converter_context(self: Any, *, node: Any) -> Iterator[None]:
        before = len(self.graph.op)
        with context(self, node=node):
            yield
        source, sources = source_of(node), sources_of(self.graph)
        for op in self.graph.op[before:]:
            sources[op.name] = source
        is_product = isinstance(node.target, OpOverload) and node.target.name() in layouts.OPERANDS
        if is_product and (columns := layouts.column_major_operands(node)):
            products = [op.name for op in self.graph.op[before:] if op.type in layouts.NODES]
            layouts_of(self.graph).update(dict.fromkeys(products, columns))

    return converter_context


def source_of(node: Any) -> Source:
    """Return the FX node, the module and the Python line that a GE node comes from.

    The line is the innermost of the caller's own code: in a library the path of the module says more.
    """
    path = module_path(node.meta) or _weight(node)
    frames = list(_FRAME.finditer(node.stack_trace or ""))
    if not frames:
        return Source(node.name, module=path)
    frame = max(frames, key=lambda match: (_rank_file(match["file"]), match.start()))
    code = (frame["code"] or "").strip()
    return Source(node.name, frame["file"], int(frame["line"]), frame["function"].strip(), code=code, module=path)


@cache
def _rank_file(file: str) -> int:
    """Order files by how much a line says: the caller's code, then a library's, then this package's and torch's."""
    if file.startswith(_OWN_FOLDERS):
        return 0
    return 1 if "/site-packages/" in file or "/dist-packages/" in file else 2


def _weight(node: Any) -> str:
    """Return the path of the weight that an input is, or ""."""
    index, weights = getattr(node.meta.get("desc"), "idx", None), _weights.get([])
    return weights[index] if node.op == "placeholder" and index is not None and index < len(weights) else ""


def _with_module_paths(dump: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the dump so that it has the module path and the line of each node; the graph that GE gets does not."""

    def dump_with_modules(self: Any, *args: Any, **kwargs: Any) -> Any:
        sources = sources_of(self.graph)
        for op in self.graph.op:
            source = sources.get(op.name, _UNKNOWN)
            if source.module:
                op.attr[MODULE_PATH].s = source.module.encode()
            if source.file:
                op.attr[SOURCE_LINE].s = source.written_line().encode()
        try:
            return dump(self, *args, **kwargs)
        finally:
            for op in self.graph.op:
                for name in (MODULE_PATH, SOURCE_LINE):
                    op.attr.pop(name, None)

    return dump_with_modules


def _with_output_devices(parse: Callable[..., Any]) -> Callable[..., Any]:
    def parse_output(self: Any, *args: Any, **kwargs: Any) -> Any:
        parsed = parse(self, *args, **kwargs)
        note_output_devices(self.graph, [output.meta.device.type for output in self.outputs])
        return parsed

    return parse_output

"""TorchAir's way from Dynamo's graph to one that runs, with what this package adds: all of it stands here, in turn.

1. Dynamo's graph arrives; what it says of its weights is kept. Operators of other packages in it that this one breaks
   up are found now: a backend may be older than they are.
2. Branches and counted loops are put in line. Results that are views of others leave the graph, which cannot share
   memory, and are taken when it has run.
3. What the host cannot honour is refused, and what nothing lowers.
4. FX nodes become GE nodes. Views that were put off are stated; where each node comes from is noted, and how the
   factors of a product lie in eager mode, for the graph does not say it. Whether a result is empty is asked without a
   guard. A generator's seed is asked for with each call.
5. The GE graph goes through the passes.
6. On the host it is the engine's.

A graph pays for what it has: the parts that branches, views or passes need are asked when there are some. Where CANN
serves, only 2, 5 and what 4 does to views and sizes is done.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule

from .. import passes
from ..converters.control_flow import CONTROL_FLOW, flatten
from ..converters.decompositions import OUTSIDE, outside
from ..converters.unsupported import WITHOUT_NODES, check_results, refusal
from ..ge import (
    MODULE_PATH,
    Source,
    layouts_of,
    module_path,
    note_output_devices,
    sources_of,
    weight_path,
)
from ..host.engine import NeedsNpuError
from ..releases.alternatives import source_name
from . import aliases, layouts, seeds, views

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOWHERE = Source()
# The path of each input that is a weight, in the order in which Dynamo's graph takes them.
_weights: ContextVar[list[str]] = ContextVar("_weights")
# The last place in a stack trace, and the code there.
_PLACE = re.compile(
    r'.*File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>[^\n]*)(?:\n *(?P<code>[^\n]*))?', re.DOTALL
)


def extend(*, on_host: bool) -> None:
    """Add it all to TorchAir, which is imported and has this package's converters."""
    converter = sys.modules["torchair._ge_concrete_graph.fx2ge_converter"]
    compiler = sys.modules["torchair.npu_fx_compiler"]
    if on_host:
        _serve(sys.modules["torchair.core._backend"])
        _note(converter, compiler)
        compiler._NpuFxCompiler._gen_compiled_gm = _checking(compiler._NpuFxCompiler._gen_compiled_gm)
    vars(compiler)["_compile_graph_with_aot"] = _breaking_up(vars(compiler)["_compile_graph_with_aot"])
    compiler._NpuFxCompiler._get_compiled_gm = _in_line(_sharing_memory(compiler._NpuFxCompiler._get_compiled_gm))
    vars(converter)["is_zero_element_tensor"] = _is_empty
    views.mend(_stated, _keeping_memory)
    seeds.mend()
    graph = converter.GeConcreteGraph
    graph.optimize_graph_without_runtime = _with_passes(graph.optimize_graph_without_runtime)


def _serve(backend: Any) -> None:
    """Let TorchAir find the host where it calls CANN. Kernels are loaded with the first graph."""
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


def _breaking_up(compile_region: Callable[..., Any]) -> Callable[..., Any]:
    def compile_broken_up(
        gm: GraphModule, compiler: Any, inputs: Any, config: Any = None, table: Any = None, **settings: Any
    ) -> Any:
        graphs = (each.graph for each in gm.modules() if isinstance(each, GraphModule))
        if any("::".join(str(node.target).split(".")[:2]) in OUTSIDE for graph in graphs for node in graph.nodes):
            table = {**outside(config), **(table or {})}
        return compile_region(gm, compiler, inputs, config, table, **settings)

    return compile_broken_up


def _in_line(compile_module: Callable[..., Any]) -> Callable[..., Any]:
    def without_control_flow(self: Any, gm: GraphModule, example_inputs: Any) -> Any:
        if any(node.target in CONTROL_FLOW for node in gm.graph.nodes):
            flatten(gm)
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


def _sharing_memory(compile_module: Callable[..., Any]) -> Callable[..., Any]:
    """TorchAir's compiler of a module, whose results share memory as the module's do."""

    def compile_sharing(self: Any, gm: GraphModule, example_inputs: Any) -> Any:
        is_run = self.config.mode.value == "max-autotune" and not self.config.export.export_mode
        # Memory is shared by views, and by what is written into an input.
        targets = [node.target for node in gm.graph.nodes if isinstance(node.target, OpOverload)]
        may_share = any(target.is_view or target is torch.ops.aten.copy_.default for target in targets)
        views = aliases.taken_out(gm) if is_run and may_share else None
        compiled = compile_module(self, gm, example_inputs)
        return compiled if views is None else aliases.WithViews(compiled, views)

    return compile_sharing


def _checking(generate: Callable[..., Any]) -> Callable[..., Any]:
    """TorchAir's compiler, with its configuration checked before it lowers a graph."""
    from ..host.device import NO_GRADIENT, missing_gradient_error

    def raising(operator: str) -> Callable[..., Any]:
        def backward(*_args: Any, **_kwargs: Any) -> Any:
            raise missing_gradient_error(operator)

        return backward

    def _gen_compiled_gm(self: Any, gm: GraphModule, *args: Any, **kwargs: Any) -> Any:
        check_config(self.config)
        for node in gm.graph.find_nodes(op="call_function", target=NO_GRADIENT):
            return raising(str(node.args[2]))  # nothing of such a graph is ever computed
        return generate(self, gm, *args, **kwargs)

    return _gen_compiled_gm


def check_config(config: Any) -> None:
    """Raise NeedsNpuError for the first setting of a CompilerConfig that a host cannot honour."""
    if config.aoe_config.aoe_mode.value is not None:
        raise NeedsNpuError("aoe_config.aoe_mode, which tunes kernels on a device,")
    if config.dump_config.enable_dump.value == "1":
        raise NeedsNpuError(
            "dump_config.enable_dump, which copies tensors out of device kernels,", "use debug.data_dump"
        )


def _is_empty(tensor: Any) -> bool:
    """Whether a tensor is known to have no elements when the graph is built: of sizes that data decide, it is not."""
    return isinstance(tensor, torch.Tensor) and any(isinstance(size, int) and size == 0 for size in tensor.size())


def _stated(given: Any, graph: Any) -> Any:
    """What an operator is given, the views that were put off stated before it."""
    if isinstance(given, sys.modules[views.HOME].ValuePack):
        given = given.npu
    if isinstance(given, (list, tuple)):
        return [_stated(each, graph) for each in given]
    return views.put_view(given, graph) if hasattr(given, "view_faketensor") else given


def _keeping_memory(is_view: Callable[..., bool]) -> Callable[..., bool]:
    """What TorchAir takes for a view, but for reshapes that copy: before those the views are stated."""

    def decide(target: Any, args: Any, meta_outputs: Any) -> bool:
        found = is_view(target, args, meta_outputs)
        return found and (str(target) not in views.RESHAPES or views.keeps_memory(*args[:2]))

    return decide


def _with_passes(optimize: Callable[..., Any]) -> Callable[..., Any]:
    def optimize_graph_without_runtime(self: Any, *args: Any, observer: Any = None, **kwargs: Any) -> Any:
        done = optimize(self, *args, observer=observer, **kwargs)
        names = passes.current()
        if names:
            passes.simplify(self, names, observer)
        return done

    return optimize_graph_without_runtime


def _note(converter: Any, compiler: Any) -> None:
    """Let TorchAir note beside a graph where its nodes come from and where its outputs belong."""
    graph = converter.GeConcreteGraph
    graph.converter_context = _noting_sources(graph.converter_context)
    graph.parse_output = _noting_devices(graph.parse_output)
    graph.dump = _telling_modules(graph.dump)
    compiler._compile_graph_with_aot = _knowing_weights(compiler._compile_graph_with_aot)
    # The same event for a profiler; without one it costs nothing, where the other takes as long as a small kernel.
    compiler.record_function = torch._C._profiler._RecordFunctionFast


def _knowing_weights(compile_region: Callable[..., Any]) -> Callable[..., Any]:
    def compile_knowing(gm: GraphModule, *args: Any, **kwargs: Any) -> Any:
        sources = (getattr(node, "_dynamo_source", None) for node in gm.graph.find_nodes(op="placeholder"))
        token = _weights.set([weight_path(source_name(source)) if source else "" for source in sources])
        try:
            return compile_region(gm, *args, **kwargs)
        finally:
            _weights.reset(token)

    return compile_knowing


def _noting_sources(context: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def converter_context(self: Any, *, node: Any) -> Iterator[None]:
        before = len(self.graph.op)
        with context(self, node=node):
            yield
        source, noted = source_of(node), sources_of(self.graph)
        for op in self.graph.op[before:]:
            noted[op.name] = source
        is_product = isinstance(node.target, OpOverload) and node.target.name() in layouts.FACTORS
        if is_product and (columns := layouts.factors_in_columns(node)):
            products = [op.name for op in self.graph.op[before:] if op.type in layouts.NODES]
            layouts_of(self.graph).update(dict.fromkeys(products, columns))

    return converter_context


def source_of(node: Any) -> Source:
    """An FX node, and the innermost Python line behind it."""
    path = module_path(node.meta) or _weight(node)
    found = _PLACE.match(node.stack_trace or "")
    if found is None:
        return Source(node.name, module=path)
    code = (found["code"] or "").strip()
    return Source(node.name, found["file"], int(found["line"]), found["function"].strip(), code=code, module=path)


def _weight(node: Any) -> str:
    """The path of the weight that an input is."""
    place, weights = getattr(node.meta.get("desc"), "idx", None), _weights.get([])
    return weights[place] if node.op == "placeholder" and place is not None and place < len(weights) else ""


def _telling_modules(dump: Callable[..., Any]) -> Callable[..., Any]:
    """A dump that carries the module path of each node; the graph itself, which GE gets, does not."""

    def dump_with_modules(self: Any, *args: Any, **kwargs: Any) -> Any:
        noted = sources_of(self.graph)
        marked = [op for op in self.graph.op if noted.get(op.name, _NOWHERE).module]
        for op in marked:
            op.attr[MODULE_PATH].s = noted[op.name].module.encode()
        try:
            return dump(self, *args, **kwargs)
        finally:
            for op in marked:
                del op.attr[MODULE_PATH]

    return dump_with_modules


def _noting_devices(parse: Callable[..., Any]) -> Callable[..., Any]:
    def parse_output(self: Any, *args: Any, **kwargs: Any) -> Any:
        parsed = parse(self, *args, **kwargs)
        note_output_devices(self.graph, [output.meta.device.type for output in self.outputs])
        return parsed

    return parse_output

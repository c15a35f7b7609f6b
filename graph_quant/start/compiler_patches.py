"""Patches for defects of TorchAir's two compilers, npugraph_ex and torchair."""

import inspect
import math
import operator
from contextlib import nullcontext
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch._functorch.partitioners import must_recompute
from torch._ops import OpOverload
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import CheckpointPolicy

from .. import chip, fusions
from ..ge import module_path
from ..refusals import UndescribedError
from ..releases.alternatives import implement
from . import dumping

_MODULE_KEY = "module"  # what a dump calls the module path
_CPU_INPUTS = "_graph_quant_cpu_inputs"  # attribute of an AclGraph: _CpuInputs by the key of the capture

_KEEPS_MARKS = "_graph_quant_keeps_marks"  # attribute of an AclGraph


def patch_example(module: ModuleType) -> None:
    """Give the pattern's example as many zero points as scales: npu_quantize refuses one for 16 scales."""
    example = module._get_inputs

    def patched() -> tuple[torch.Tensor, ...]:
        *others, scales, zero_points = example()
        return (*others, scales, torch.ones_like(scales, dtype=zero_points.dtype))

    vars(module)["_get_inputs"] = patched


def skip_undescribed_patterns(module: ModuleType) -> None:
    """Leave out the fusions of, or to, operators that are not described for the chip in use: none of them can run."""
    register = module._PatternPassManager.register_pattern

    def register_described(self: Any, search_fn: Any, replace_fn: Any, example_inputs: Any, **options: Any) -> None:
        try:
            if not chip.has(chip.A2_AND_A3):
                scalars = options.get("scalar_workaround") or {}
                rest = list(inspect.signature(replace_fn).parameters)[len(example_inputs) :]
                replace_fn(*example_inputs, *(scalars.get(name) for name in rest))
            register(self, search_fn=search_fn, replace_fn=replace_fn, example_inputs=example_inputs, **options)
        except UndescribedError:
            return

    module._PatternPassManager.register_pattern = register_described


def patch_registration(module: ModuleType) -> None:
    """Let a process use both compilers: they register the same decompositions, which PyTorch refuses."""
    register = module.register_matmul_backward_decomp

    def register_once() -> None:
        if torch._C.DispatchKey.AutogradPrivateUse1 not in torch.ops.aten.to.other.py_kernels:
            register()

    vars(module)["register_matmul_backward_decomp"] = register_once


def patch_configuration(module: ModuleType) -> None:
    """Give npugraph_ex the options that it disables for npu_weight_quant_batchmatmul and that only torchair has."""
    module.CompilerConfig.experimental_config = SimpleNamespace(enable_view_optimize=False)


def fuse_first(module: ModuleType) -> None:
    """Run the selected fusions before the compiler's own passes over an FX graph."""
    optimize, compile_graph = module._optimize_fx, module._compile_graph_with_aot
    captures = module.__name__.startswith("npugraph_ex")  # for torchair, ``compiling`` names dumps

    def _compile_graph_with_aot(gm: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        with fusions.prepare_current(gm), dumping.named_after(gm) if captures else nullcontext():
            return compile_graph(gm, *args, **kwargs)

    def _optimize_fx(graph_module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        fusions.fuse_current(graph_module)
        return optimize(graph_module, *args, **kwargs)

    vars(module).update(_optimize_fx=_optimize_fx, _compile_graph_with_aot=_compile_graph_with_aot)


def save_random_results(module: ModuleType) -> None:
    """Keep the random samples of checkpointed regions for the backward graph, which neither compiler can repeat.

    PyTorch gives both graphs a generator as their last input for that. It has no converter, and the compilers count
    inputs from the end to mark those that are parameters.
    """
    partition = module.default_partition

    def default_partition(joint_module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        for node in joint_module.graph.nodes:
            is_random = isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags
            if is_random and must_recompute(node):
                results = [user for user in node.users if user.target is operator.getitem]
                for result in (node, *results):
                    result.meta["recompute"] = CheckpointPolicy.MUST_SAVE
        return partition(joint_module, *args, **kwargs)

    vars(module)["default_partition"] = default_partition


def keep_overlapping_operands(module: ModuleType) -> None:
    """Let no operator write over an operand whose memory another operand shares, as in ``x[1:] - x[:-1]``.

    The pass that makes operators in-place asks only who reads that memory later.
    """
    check = module.check_multi_stream_for_single_reinplace

    def check_multi_stream_for_single_reinplace(node: torch.fx.Node) -> bool:
        storages = [_storage(operand) for operand in node.all_input_nodes]
        is_shared = bool(storages) and storages[0] is not None and storages[0] in storages[1:]
        return not is_shared and check(node)

    vars(module)["check_multi_stream_for_single_reinplace"] = check_multi_stream_for_single_reinplace


def keep_scattered_tensors(module: ModuleType) -> None:
    """Let no operator write into a view of a tensor that is assembled from that view later, by a slice_scatter.

    Upstream means to drop the scatter, and puts the view where the assembled tensor was read.
    """
    vars(module)["_get_view_inverse_node_usages"] = lambda *_nodes: set()


def define_functions_of_sizes(module: ModuleType) -> None:
    """Define the functions of sizes that the code of a graph calls, such as ``math_trunc``: FX names globals so."""
    define = module.AclConcreteGraph._codegen_update_global_dict

    def _codegen_update_global_dict(self: Any) -> str:
        known = self.fx_graph.graph.python_code("self").globals.items()
        lines = [f"import math\n{name} = math.{value.__name__}" for name, value in known if _is_of_math(value)]
        return "\n".join((define(self), *lines))

    module.AclConcreteGraph._codegen_update_global_dict = _codegen_update_global_dict


def _is_of_math(value: Any) -> bool:
    return getattr(value, "__module__", "") == math.__name__


def _storage(node: torch.fx.Node) -> int | None:
    value = node.meta.get("fake_result", node.meta.get("val"))
    return StorageWeakRef(value.untyped_storage()).cdata if isinstance(value, torch.Tensor) else None


def add_module_paths(module: ModuleType) -> None:
    """Write the module path before each node of the graphs that TORCH_COMPILE_DEBUG=1 dumps after passes."""
    write = module.dump_fx_safety

    def dump_fx_safety(gm: torch.fx.GraphModule, file_path: str | None = None) -> None:
        graphs = [inner.graph for inner in gm.modules() if isinstance(inner, torch.fx.GraphModule)]
        known = {node: path for graph in graphs for node in graph.nodes if (path := module_path(node.meta))}
        for node, path in known.items():
            node.meta[_MODULE_KEY] = path
        gm.print_readable = partial(gm.print_readable, additional_meta=[_MODULE_KEY])  # type: ignore[method-assign]
        try:
            write(gm, file_path)
        finally:
            del gm.print_readable
            for node in known:
                del node.meta[_MODULE_KEY]

    vars(module)["dump_fx_safety"] = dump_fx_safety


class _CpuInputs(NamedTuple):
    """The CPU inputs of a captured graph: copies, which it reads, and the values of scalars, by their positions."""

    copies: list[torch.Tensor]
    numbers: dict[int, float]


def recapture_for_numbers(module: ModuleType) -> None:
    """Copy the CPU inputs of a captured graph, and capture again when a scalar among them changes.

    TorchAir frees these inputs after a capture and writes to their freed memory before a replay; and a kernel that
    takes a Python number, which is a CPU input without dimensions, would always use the captured value.
    """
    graph = module.AclGraph
    capture, changed = graph.capture, graph.is_need_to_recapture

    def capture_copies(self: Any, graph_key: str, *args: Any, **kwargs: Any) -> Any:
        inputs, cpu_inputs = list(args), _CpuInputs([], {})
        for name, position in self._user_inputs_mapping.items():
            tensor = inputs[position]
            if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cpu":
                continue
            if tensor.dim() == 0:
                cpu_inputs.numbers[position] = tensor.item()
            written = name in self._mutated_user_inputs or position in self._userinput_ref_with_output
            if self.config.get("clone_input", True) and not written:
                inputs[position] = tensor.clone()
                cpu_inputs.copies.append(inputs[position])
        vars(self).setdefault(_CPU_INPUTS, {})[graph_key] = cpu_inputs
        return capture(self, graph_key, *inputs, **kwargs)

    def is_need_to_recapture(self: Any, graph_key: str, *args: Any) -> bool:
        if changed(self, graph_key, *args):
            return True
        if self.config.get("unsafe_skip_npugraph_capture_validation", False):
            return False
        numbers = vars(self)[_CPU_INPUTS][graph_key].numbers
        return any(args[position].item() != number for position, number in numbers.items())

    graph.capture, graph.is_need_to_recapture = capture_copies, is_need_to_recapture


def keep_marks_of_stale_outputs(module: ModuleType) -> None:
    """Leave the marks of outputs that own memory as they are where a graph returns the outputs that are still alive.

    An output whose memory went back to the pool at a later capture owns none any more. npugraph_ex marks it again when
    its graph is replayed, and takes the mark off the outputs that do own memory: the next capture stops with
    "Unexpected deleter function on storage", and the outputs are freed twice, which ends the process.
    """
    graph = module.AclGraph
    if not hasattr(graph, "construct_outputs_based_on_ref"):
        return
    reconstruct = graph.reconstruct_outputs
    based_on_alive = graph.construct_outputs_based_on_ref

    def construct_outputs_based_on_ref(self: Any, graph_key: str) -> Any:
        outputs = based_on_alive(self, graph_key)
        vars(self)[_KEEPS_MARKS] = outputs is not None
        return outputs

    def reconstruct_outputs(self: Any, graph_key: str) -> Any:
        vars(self)[_KEEPS_MARKS] = False
        marked = self.stale_storages_ptr
        outputs = reconstruct(self, graph_key)
        if vars(self)[_KEEPS_MARKS]:
            self.stale_storages_ptr = marked
        return outputs

    graph.construct_outputs_based_on_ref, graph.reconstruct_outputs = (
        construct_outputs_based_on_ref,
        reconstruct_outputs,
    )


def patch_recv(module: ModuleType) -> None:
    """Receive into new memory: by its schema `_recv` neither writes its argument nor returns it."""
    receive = module.recv_npu

    def recv(like: torch.Tensor, *args: object) -> torch.Tensor:
        result = torch.empty_like(like, memory_format=torch.contiguous_format)
        receive(result, *args)
        return result

    implement(module.npu_define_lib, module.op_recv, recv, "PrivateUse1")

"""Every private name of torch, torch_npu and TorchAir that this package touches, and what depends on it.

Private names move without notice. ``missing`` checks all of them, so that a new release upstream shows at once what
has to be fixed; ``graph-quant doctor`` calls it.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class PrivateApi:
    """A name, by its path, and what stops working without it.

    An attribute of instances is searched in the source of their class or module, and written as path, space, name.
    ``alternatives`` are the paths that other releases have instead; ``graph_quant.releases.alternatives`` uses them.
    """

    path: str
    breaks: str
    alternatives: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name itself."""
        return self.path.replace(" ", ".").rpartition(".")[2]

    @property
    def used_by(self) -> list[str]:
        """The files of the package that use the name."""
        pattern = re.compile(rf"\b{re.escape(self.name)}\b")
        return sorted(name for name, text in _texts() if self.name in text and pattern.search(text))

    def is_there(self) -> bool:
        """Whether the name, or an alternative, exists."""
        return any(map(_exists, (self.path, *self.alternatives)))


def _exists(path: str) -> bool:
    owner, _, attribute = path.partition(" ")
    try:
        holder = _resolve(owner, loaded=bool(attribute))
        return not attribute or attribute in _source(holder)
    except (ImportError, AttributeError, OSError, TypeError):
        return False


def _source(holder: Any) -> str:
    with warnings.catch_warnings():  # upstream's source has invalid escapes
        warnings.simplefilter("ignore")
        return inspect.getsource(holder)


@functools.cache
def _texts() -> list[tuple[str, str]]:
    return [(name, path.read_text(encoding="utf-8")) for name, path in _files()]


def _files() -> Iterator[tuple[str, Path]]:
    """Yield the modules of the package except this one, wherever its parts are installed."""
    package = importlib.import_module(__package__)
    parts = [*package.__path__, *(path for name in ("meta", "converters") for path in _package_paths(name))]
    for folder in map(Path, dict.fromkeys(parts)):
        for path in folder.rglob("*.py"):
            if path != Path(__file__):
                yield str(path.relative_to(folder.parent)), path


def _package_paths(part: str) -> list[str]:
    spec = importlib.util.find_spec(f"{__package__}.{part}")
    return list(spec.submodule_search_locations or ()) if spec else []


def _resolve(path: str, *, loaded: bool) -> Any:
    parts = path.split(".")
    value: Any = importlib.import_module(parts[0])
    for count, part in enumerate(parts[1:], 2):
        if hasattr(value, part):
            value = getattr(value, part)
            continue
        name = ".".join(parts[:count])
        if count == len(parts) and not loaded:  # a module need not be imported to know that it exists
            return importlib.util.find_spec(name) or importlib.import_module(name)
        value = importlib.import_module(name)
    return value


def missing() -> Iterator[PrivateApi]:
    """Yield the private APIs that are not where this release of the package expects them."""
    importlib.import_module("torch_npu")  # TorchAir is found through it
    absent = tuple(f"{name}." for name in _OPTIONAL if importlib.util.find_spec(name) is None)
    return (api for api in PRIVATE_APIS if not api.path.startswith(absent) and not api.is_there())


def _private_apis(breaks: str, *paths: str | tuple[str, ...]) -> list[PrivateApi]:
    """APIs that one feature needs; a tuple has the newest path first and then its alternatives."""
    named = [(path,) if isinstance(path, str) else path for path in paths]
    return [PrivateApi(path, breaks, tuple(alternatives)) for path, *alternatives in named]


# Packages without which the others work.
_OPTIONAL = ("triton", "torchao")
_DISPATCH = "torch._C."
_FAKE = "torch._subclasses.fake_tensor."
_GRAPH = "torchair.ge._ge_graph."
_CONVERTER = "torchair._ge_concrete_graph.fx2ge_converter"
_BACKEND = "torchair.core._backend"

PRIVATE_APIS: tuple[PrivateApi, ...] = (
    # torch
    *_private_apis(
        "operators have no inference: nothing of them can be traced",
        "torch._library.simple_registry.singleton",
        "torch.library.Library _registration_handles",
        "torch.library._impls",
    ),
    *_private_apis(
        "the host NPU cannot run torch's operators",
        *(
            _DISPATCH + name
            for name in (
                "_dispatch_library",
                "_dispatch_dump",
                "_dispatch_get_registrations_for_dispatch_key",
                "_dispatch_has_kernel_for_dispatch_key",
                "_AutoDispatchBelowAutograd",
                "_InferenceMode",
                "_len_torch_dispatch_stack",
                "_set_grad_enabled",
                "_dispatch_keys",
            )
        ),
        "torch.ops.aten.add.Tensor._schema",
        "torch.ops.aten.add.Tensor._op",
        "torch.ops.aten.add.Tensor._op_dk",
        "torch.ops.aten._local_scalar_dense",
        "torch._ops.OpOverload",
        "torch._ops.HigherOrderOperator",
        "torch.utils._pytree.tree_flatten",
        "torch.utils._pytree.tree_map",
        "torch.utils._pytree.tree_unflatten",
        "torch.utils._pytree.TreeSpec",
        "torch.utils._python_dispatch._disable_current_modes",
        "torch.utils._mode_utils.no_dispatch",
    ),
    *_private_apis(
        "the memory of npu tensors cannot be accessed by the CPU",
        "torch._C._construct_storage_from_data_pointer",
        "torch.Tensor._is_zerotensor",
        "torch.UntypedStorage._cdata",
        "torch.UntypedStorage._new_with_weak_ptr",
        "torch._neg_view",
        (
            "torch._prims_common.is_non_overlapping_and_dense_or_false",
            "torch._prims_common.is_non_overlapping_and_dense",
        ),
        "torch._prims_common.make_contiguous_strides_for",
    ),
    *_private_apis(
        "dumps have no inferred types, and calls cannot be traced",
        *(
            _FAKE + name
            for name in (
                "FakeTensor",
                "FakeTensorMode",
                "DataDependentOutputException",
                "DynamicOutputShapeException",
                "UnsupportedFakeTensorException",
                "in_kernel_invocation_manager",
            )
        ),
        "torch._dynamo.source.ConstantSource",
        "torch._dynamo.assume_constant_result",
        "torch._dynamo.disable",
        "torch._compile._disable_dynamo __dynamo_disable",
        "torch.export._trace",
        ("torch.compiler._compile_session_context", "torch.compiler._is_compiling_flag"),
        "torch.fx.experimental.symbolic_shapes.ShapeEnv _suppress_guards_tls",
        "torch.fx.experimental.symbolic_shapes.uninteresting_files",
    ),
    *_private_apis(
        "addcmul_, addcdiv and _foreach_lerp_ with numbers round otherwise in graphs than eagerly",
        "torch._dynamo.variables.torch.TorchInGraphFunctionVariable._get_handlers",
        "torch._dynamo.variables.tensor.TensorVariable",
        "torch._foreach_lerp_",
    ),
    *_private_apis(
        "steps of optimizers are not compiled",
        "torch._dynamo.variables.optimizer.OptimizerVariable._set_capturable",
        "torch._dynamo.variables.functions _dynamo_marked_constant",
        "torch.utils._foreach_utils._get_foreach_kernels_supported_devices",
    ),
    *_private_apis(
        "checkpointed regions with random operators are not compiled",
        "torch._functorch.partitioners.must_recompute",
        "torchair.npu_fx_compiler.default_partition",
    ),
    *_private_apis(
        "attention under npugraph_ex fails where the environment variable CI is set",
        "torch._functorch._aot_autograd.runtime_wrappers._check_custom_op_aliasing",
    ),
    *_private_apis(
        "errors in graphs do not name their node",
        "torch.fx.graph_module.GraphModule _lineno_map",
        "torch.fx.graph_module.GraphModule _prologue_start",
    ),
    *_private_apis(
        "kernels of the engine are missing",
        "torch._int_mm",
        "torch.cpu._is_vnni_supported",
        "torch.cpu._is_amx_tile_supported",
        "torch.ops.aten._softmax_backward_data",
        "torch.ops.aten._log_softmax_backward_data",
        "torch.ops.aten._upsample_nearest_exact2d_backward",
        "torch.ops.aten._native_batch_norm_legit_functional",
    ),
    *_private_apis(
        "verify cannot compare scripts",
        "torch._dynamo.exc.TorchDynamoException",
        "torch._guards.TracingContext",
        "torch.utils._pytree.tree_flatten_with_path",
    ),
    *_private_apis(
        "a refused call in a compiled function does not raise Refusal",
        "torch._dynamo.exc.TorchRuntimeError",
        "torch._dynamo.exc.BackendCompilerFailed",
    ),
    *_private_apis(
        "linears that torchao quantised are not lowered to npu operators",
        "torchao.quantization.quantize_.workflows.int8.int8_tensor.Int8Tensor",
        "torchao.quantization.quantize_.workflows.intx.intx_unpacked_to_int8_tensor.IntxUnpackedToInt8Tensor",
        "torchao.utils.TorchAOBaseTensor _ATEN_OP_TABLE",
        "torchao.utils.TorchAOBaseTensor _TORCH_FN_TABLE",
        "torch._subclasses.functional_tensor.FunctionalTensor",
    ),
    *_private_apis(
        "a terminal does not show the progress of compilations",
        "torch._dynamo.callback.on_compile_start",
        "torch._dynamo.callback.on_compile_end",
    ),
    *_private_apis(
        "graph-quant run ends a refused call with a line about an unknown error",
        "torch_npu.utils._error_code._except_handler",
    ),
    *_private_apis("masks of npu_dropout_gen_mask cannot be sampled", "torch.ops.npu._npu_dropout"),
    *_private_apis("experts of transformers cannot be lowered", "torch.ops.aten._grouped_mm"),
    *_private_apis(
        "attention with a shift of its scores, or with dropout, cannot be computed",
        "torch.ops.aten._scaled_dot_product_attention_math",
    ),
    *_private_apis(
        "modules with hooks are quantised, and lose them",
        "torch.nn.Module _forward_hooks",
        "torch.nn.Module _forward_pre_hooks",
    ),
    *_private_apis("supported operators cannot be listed", "torch._C._dispatch_get_all_op_names"),
    *_private_apis(
        "ranks cannot communicate",
        "torch._C._distributed_c10d._create_work_from_future",
        "torch._C._distributed_c10d.AllgatherOptions",
        "torch.distributed.Backend._plugins",
        "torch.distributed._functional_collectives.all_gather_tensor",
        "torch.distributed._functional_collectives.all_reduce",
        "torch.nn.Module _buffers",
        "torch.ops._c10d_functional",
        "torch.distributed.ProcessGroup._end_coalescing",
        "torch.distributed.ProcessGroup._get_backend",
        "torch.distributed.ProcessGroup._reduce_scatter_base",
        "torch.distributed.ProcessGroup._start_coalescing",
    ),
    *_private_apis(
        "compilers change the order in which ranks communicate",
        ("torch._library.effects.EffectType", "torch._higher_order_ops.effects._EffectType"),
        ("torch.library.Library._register_effectful_op", "torch._higher_order_ops.effects._register_effectful_op"),
    ),
    *_private_apis("graphs cannot be profiled", "torch._C._profiler._RecordFunctionFast"),
    *_private_apis(
        "the package's operators cannot be unregistered",
        "torch.library.Library._destroy",
        "torch.library._scoped_library",
    ),
    # torch_npu
    *_private_apis(
        "the host NPU does not start",
        "torch_npu.npu._lazy_init",
        "torch_npu.npu _initialized",
        "torch_npu.npu _is_internal_in_bad_fork",
        (
            "torch_npu._init.registry.registry_manager._cann_package_check",
            "torch_npu.utils.npu_intercept._cann_package_check",
        ),
        "torch_npu._C._get_silent_check_version",
    ),
    *_private_apis(
        "a capture that failed keeps its memory",
        ("torch_npu._C._npu_endAllocateToPool", "torch_npu._C._npu_endAllocateCurrentStreamToPool"),
        "torch_npu._C._npu_releasePool",
    ),
    *_private_apis(
        "graphs do not run on a device that is not the current one",
        "torchair.npu_fx_compiler._CompiledFxGraph",
        "torchair._acl_concrete_graph.acl_graph.CapturedGraphUpdateAndReplay._update_stream",
        "npugraph_ex.npu_fx_compiler._CompiledFxGraph",
        "npugraph_ex._acl_concrete_graph.acl_graph.CapturedGraphUpdateAndReplay._update_stream",
    ),
    *_private_apis(
        "captured graphs lose the numbers that they are given",
        *(
            f"{compiler}._acl_concrete_graph.acl_graph.AclGraph{name}"
            for compiler in ("torchair", "npugraph_ex")
            for name in (
                *(".capture", ".is_need_to_recapture", ".process_input", " _graphs_meta"),
                *(" _user_inputs_mapping", " _mutated_user_inputs", " _userinput_ref_with_output"),
            )
        ),
    ),
    *_private_apis(
        "streams cannot be captured",
        ("torch_npu._C._npu_getCurrentRawStreamNoWait", "torch_npu._C._npu_getCurrentRawStream"),
        "torch_npu._C._npu_getDevice",
    ),
    *_private_apis(
        "RNG states cannot be restored in captured graphs",
        "torch_npu.npu.random.get_rng_state",
        "torch_npu.npu.random.set_rng_state",
        "torch.accelerator._utils._get_device_index",
    ),
    *_private_apis("operators are not inferred", "torch_npu.op_plugin.meta._meta_registrations"),
    *_private_apis(
        "operators of ATB are missing",
        "torch_npu.op_plugin.atb._atb_ops",
        "torch._C._jit_get_schemas_for_operator",
    ),
    *_private_apis("numbers lose their precision in half-precision calls", "torch._C._should_allow_numbers_as_tensors"),
    *_private_apis(
        "lists of tensors have other bits in graphs", "torch.ops.aten._foreach_lerp", "torch.ops.aten._foreach_pow"
    ),
    *_private_apis("dropout_with_byte_mask is missing", "torch.ops.npu._dropout_with_byte_mask"),
    *_private_apis(
        "the engine inductor does not start",
        "torch_npu._inductor",
        "torch._inductor.compile",
        "torch._inductor.decomposition.decompositions",
        "torch._inductor.lowering.make_fallback",
        "torch._inductor.lowering.lowerings",
        "torch._inductor.select_algorithm.extern_kernels",
    ),
    *_private_apis(
        "the engine inductor calls this package's operators through the dispatcher, which is slower",
        "torch._inductor.codegen.custom_extern_kernel_codegen.CUSTOM_EXTERN_KERNEL_CODEGEN",
        "torch._inductor.codegen.custom_extern_kernel_codegen.CustomCodegen",
    ),
    *_private_apis("native kernels cannot allocate their results", "torch._C._dynamo.guards._empty_strided_cpu"),
    # TorchAir
    *_private_apis(
        "TorchAir does not run on the host",
        f"{_BACKEND}._torchair",
        f"{_BACKEND} TorchNpuGraph",
        f"{_BACKEND} InitializeGraphEngine",
        f"{_GRAPH}GeGraph _executor",
        "torchair.npu_fx_compiler._NpuFxCompiler._gen_compiled_gm",
        "torchair.npu_fx_compiler record_function",
    ),
    *_private_apis(
        "a program's handlers of signals are TorchAir's, unless this release sets none", f"{_BACKEND}._signal_handler"
    ),
    *_private_apis(
        "operators are not lowered by this package",
        f"{_CONVERTER}.register_fx_node_ge_converter",
        f"{_CONVERTER} _ge_converter",
        "torchair._ge_concrete_graph.ge_converter.custom",
        "torchair._ge_concrete_graph.ge_apis",
        "torchair._ge_concrete_graph.compat_ir.ge_op",
        f"{_GRAPH}DataType",
        f"{_GRAPH}Tensor",
        f"{_GRAPH}dont_prune_me",
        f"{_GRAPH}get_default_ge_graph",
    ),
    *_private_apis(
        "core ATen is not lowered whole",
        "torch._decomp.core_aten_decompositions",
        "torch._decomp.decomposition_table",
        "torch.ops.aten._adaptive_avg_pool3d",
        "torch.ops.aten._adaptive_avg_pool2d_backward",
        "torch.ops.aten._embedding_bag",
        "torch.ops.aten._prelu_kernel_backward",
        "torch.ops.aten._weight_norm_interface",
        "torch.ops.aten._weight_norm_interface_backward",
        "torch.ops.aten._embedding_bag_forward_only",
        "torch.ops.aten._assert_scalar",
        "torch.ops.aten._cdist_forward",
        "torch.ops.aten._fft_c2c",
        "torch.ops.aten._fft_c2r",
        "torch.ops.aten._fft_r2c",
        "torch.ops.aten._conj",
        "torch.ops.aten._conj_physical",
        "torch.ops.aten._linalg_check_errors",
        "torch.ops.aten._linalg_det",
        "torch.ops.aten._linalg_eigh",
        "torch.ops.aten._linalg_slogdet",
        "torch.ops.aten._linalg_solve_ex",
        "torch.ops.aten._linalg_svd",
        "torch.ops.aten._unique2",
        "torch.ops.aten._native_batch_norm_legit",
        "torch.ops.aten._native_batch_norm_legit_no_training",
        "torch.ops.aten._pdist_forward",
        "torch.ops.aten._unsafe_index",
        "torchair._ge_concrete_graph.utils.specific_op_input_layout",
        "torchair._ge_concrete_graph.utils.specific_op_output_layout",
        "torchair.ge._ge_graph.TensorSpec _meta",
        ("torchair.npu_fx_compiler._get_merged_decompositions", "torchair.npu_fx_compiler.get_npu_backend"),
        "torchair.npu_fx_compiler._NpuFxCompiler._get_compiled_gm",
    ),
    *_private_apis(
        "torch.manual_seed between two calls of a graph has no effect",
        f"{_GRAPH}_GraphRngState.consume",
        f"{_GRAPH}_GraphRngState _gen",
        f"{_GRAPH}_GraphRngState _seed",
    ),
    *_private_apis(
        "an empty random result does not advance the generator in a graph", f"{_CONVERTER} _DONT_EMPTY_TENSOR_OPT_OPS"
    ),
    *_private_apis(
        "graphs have no sizes that are known only when they run",
        f"{_CONVERTER} is_zero_element_tensor",
        f"{_CONVERTER} get_used_sym_value_mapping",
        "torchair.npu_fx_compiler._is_binary_operator",
    ),
    *_private_apis(
        "nodes of a graph do not know their FX node and Python line",
        f"{_CONVERTER}.GeConcreteGraph.converter_context",
        f"{_CONVERTER}.GeConcreteGraph.parse_output",
        f"{_CONVERTER}.GeConcreteGraph _converter_ctx",
        f"{_CONVERTER}.GeConcreteGraph.dump",
    ),
    *_private_apis(
        "graphs are compiled again where sizes are the same by chance",
        "torchair._ge_concrete_graph.continguous.optimize_view",
        "torchair._ge_concrete_graph.continguous.get_sym_node_from_graph",
        "torchair._ge_concrete_graph.continguous._build_reshape_node",
        "torchair._ge_concrete_graph.continguous_utils.is_view_case",
        "torchair._ge_concrete_graph.continguous_utils.set_meta_tensor_info",
    ),
    *_private_apis(
        "passes do not know which sizes are the same",
        f"{_CONVERTER}.GeConcreteGraph _all_sym_input_idx",
        f"{_CONVERTER}.GeConcreteGraph _all_meta_tensor_input",
    ),
    *_private_apis(
        "operators that nothing lowers are refused by the name of a GE operator",
        f"{_CONVERTER}._generate_converter_code",
        (f"{_CONVERTER}._get_converter_context", f"{_CONVERTER}._can_autogenerate_converter"),
    ),
    *_private_apis(
        "operators of other packages are not lowered, verify sees no graphs",
        f"{_CONVERTER}.GeConcreteGraph.parse_node",
        ("torchair.npu_fx_compiler._compile_graph_with_aot", "torchair.npu_fx_compiler._npu_backend"),
        "torchair.npu_fx_compiler._process_kwargs_options",
    ),
    *_private_apis(
        "plan stops at the first operator without a converter",
        (f"{_CONVERTER}.GeConcreteGraph._create_mock_node_for_op", "torchair._ge_concrete_graph.compat_ir.ge_op"),
        f"{_CONVERTER}.set_ge_outputs",
    ),
    *_private_apis(
        "plan runs captured graphs",
        "npugraph_ex.npu_fx_compiler._NpuFxCompiler._gen_compiled_gm",
    ),
    *_private_apis(
        "TorchAir's compilers stop at an example of their own",
        "torchair.patterns.add_rms_norm_quant._get_inputs",
        "torchair.patterns.pattern_pass_manager._PatternPassManager.register_pattern",
    ),
    *_private_apis(
        "verify does not see captured graphs",
        "npugraph_ex.npu_fx_compiler._compile_graph_with_aot",
        "npugraph_ex.npu_fx_compiler._NpuFxCompiler._get_compiled_gm",
        "npugraph_ex._utils.graph_transform_observer.GraphTransformObserver.apply_gm_pass",
    ),
    *_private_apis(
        "npugraph_ex fails where weights of 8 or 4 bits meet activations of 16",
        "npugraph_ex.configs.compiler_config.CompilerConfig",
    ),
    *_private_apis(
        "Dynamo compiles this package's kernels after a graph break",
        ("torch._dynamo.trace_rules.BUILTIN_INLINE_WHEN_CALLED", "torch._dynamo.trace_rules.is_torch_inline_allowed"),
        "torch._dynamo.trace_rules.SKIP_DIRS",
        "torch._dynamo.trace_rules.add",
    ),
    *_private_apis(
        "dumps of compiled modules are named forward, not after the class",
        "torch._dynamo.symbolic_convert.InstructionTranslator current_tx",
    ),
    *_private_apis(
        "received messages alias what they are received into",
        "torchair._ge_concrete_graph.ge_converter.experimental.hcom_send_recv.recv_npu",
        "torchair._ge_concrete_graph.ge_converter.experimental.hcom_send_recv.op_recv",
    ),
    *_private_apis(
        "a dry run does not report refusals that the script catches",
        "torch._dynamo.utils.counters",
        "torch._dynamo.utils.get_compilation_metrics",
        "torch._dynamo.utils.CompilationMetrics fail_reason",
        "torch._dynamo.utils.CompilationMetrics fail_user_frame_filename",
        "torch._dynamo.utils.CompilationMetrics fail_user_frame_lineno",
    ),
    *_private_apis(
        "a process cannot use both of TorchAir's compilers",
        "torchair._utils.register_matmul_backward_decomp",
    ),
    *_private_apis(
        "captured graphs write over operands that are still read",
        "torchair._acl_concrete_graph.graph_pass.check_multi_stream_for_single_reinplace",
        "npugraph_ex._acl_concrete_graph.graph_pass.check_multi_stream_for_single_reinplace",
        "torchair._acl_concrete_graph.graph_pass._get_view_inverse_node_usages",
        "npugraph_ex._acl_concrete_graph.graph_pass._get_view_inverse_node_usages",
    ),
    *_private_apis(
        "captured graphs cannot compute fractions of dynamic sizes",
        "torchair._acl_concrete_graph.fx2acl_converter.AclConcreteGraph _codegen_update_global_dict",
        "npugraph_ex._acl_concrete_graph.fx2acl_converter.AclConcreteGraph _codegen_update_global_dict",
    ),
    *_private_apis(
        "fusions do not run",
        "torchair.npu_fx_compiler._optimize_fx",
        "npugraph_ex.npu_fx_compiler._optimize_fx",
        "torch._dynamo.source.is_from_unspecialized_nn_module_source",
        "torch._dynamo.symbolic_convert.TensorifyState",
        "torch._guards.detect_fake_mode",
        "torch._inductor.pattern_matcher.CallFunction",
        "torch._inductor.pattern_matcher.KeywordArg",
        "torch._inductor.pattern_matcher.MULTIPLE",
        "torch._inductor.pattern_matcher.PatternExpr",
        "torch._inductor.pattern_matcher.is_match",
        "torch.fx.passes.shape_prop._extract_tensor_metadata",
        "torch.ops.aten._to_copy",
        "torch.ops.aten._unsafe_view",
        "torch.fx.Node _erased",
        "torch._ops.OpOverload _schema",
    ),
    *_private_apis(
        "the graphs of passes do not name modules",
        "torchair._utils.graph_transform_observer.dump_fx_safety",
        "npugraph_ex._utils.graph_transform_observer.dump_fx_safety",
    ),
    *_private_apis(
        "streams and events in compiled functions end in an error",
        "npugraph_ex._acl_concrete_graph.replace_stream_event.replace_stream_event_pass",
        "npugraph_ex._acl_concrete_graph.replace_stream_event._is_event",
        "npugraph_ex._acl_concrete_graph.replace_stream_event.DEFAULT_STREAM_ID_MARKER",
        "npugraph_ex.ops._tagged_event",
        "torchair._acl_concrete_graph.replace_stream_event.replace_stream_event_pass",
        "torchair._acl_concrete_graph.replace_stream_event._create_event_by_name",
        "torchair._acl_concrete_graph.replace_stream_event.GraphCounter",
        "torchair.ops._tagged_event",
        "torch._dynamo.graph_bytecode_inputs.get_external_object_by_index",
    ),
    *_private_apis(
        "torch_npu.profiler does not say why it records nothing",
        "torch_npu.profiler.profiler_interface._ProfInterface.init_trace",
        "torch_npu.profiler.profiler_interface._ProfInterface.stop_trace",
        "torch_npu.profiler.profiler_interface._ProfInterface.finalize_trace",
        "torch_npu.profiler.profiler_interface._ProfInterface.analyse",
    ),
    *_private_apis(
        "static kernels are not refused", "torchair._acl_concrete_graph.static_kernel.compile_static_kernel"
    ),
    *_private_apis("live graphs cannot be read as dumps", f"{_GRAPH}GeGraph _proto"),
    *_private_apis(
        "dumps cannot be read",
        "torchair._ge_concrete_graph.ge_ir_by_protoc_3_19_pb2",
        "torchair._ge_concrete_graph.auto_generated_ge_raw_ops",
    ),
    *_private_apis(
        "Triton kernels do not run on the host NPU",
        *(
            f"triton.runtime.interpreter.{name}"
            for name in (
                *("_get_np_dtype", "_interpreter.load", "_interpreter.store", "_ir.ROUNDING_MODE", "_patch_lang"),
                *("GridExecutor", "InterpretedFunction.run", "InterpreterBuilder", "TensorHandle"),
                *("interpreter_builder", "interpreter_semantic", "np_erf_fp64"),
            )
        ),
        "triton._utils.TRITON_MAX_TENSOR_NUMEL",
        "triton._utils.validate_block_shape",
        "triton.language.core.validate_block_shape",
        "triton.language.semantic.TritonSemantic.arange",
        "triton.runtime.jit.type_canonicalisation_dict",
    ),
)

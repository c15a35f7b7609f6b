"""Prepares this process so that torch, torch_npu and TorchAir work, in whatever order they are imported.

Importing this module is cheap and loads none of them; where they are loaded already, they are extended at once.
"""

import gc
import sys
from functools import partial
from importlib.util import find_spec

from . import acl_module
from .imports import ImportActions
from .preload import HOST, HostNpuError, choose, chosen

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the import: this module is loaded at interpreter start
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any

_actions = ImportActions()
# The modules that could not be extended, and the first error of each.
failed_actions = _actions.failed
# Where torch_npu checks CANN's environment; before 2.13 in its utilities.
_ENVIRONMENT_CHECKS = ("torch_npu._init.registry.registry_manager", "torch_npu.utils.npu_intercept")
_MESSAGES = "torchair._ge_concrete_graph.ge_converter.experimental.hcom_send_recv"

_TORCHAO = tuple(f"torchao.quantization.quantize_.workflows.{name}" for name in (
    "int8.int8_tensor", "intx.intx_unpacked_to_int8_tensor",
))  # fmt: skip


def activate() -> None:
    """Register the actions for the import of torch_npu and TorchAir; run those of loaded modules at once."""
    if "torch._C" in sys.modules and "torch" not in sys.modules:
        raise HostNpuError(
            "an earlier `import torch` failed in this process and cannot be tried again: "
            "restart Python (in a notebook: the kernel) and import graph_quant before torch"
        )
    _actions.before("torch", _choose_runtime)
    _actions.before("torch_npu", _choose_runtime)
    _actions.install()
    acl_module.install()
    _actions.before("triton", _choose_triton_interpreter)
    _actions.after("triton", _extend_triton)
    _actions.after("triton.compiler.compiler", _name_triton_key)
    _actions.after("torch._dynamo.trace_rules", _skip_in_dynamo)
    _actions.after("torch._dynamo.exc", _raise_refusals)
    _actions.after("torch._dynamo.callback", _report_progress)
    _actions.after("torch._functorch._aot_autograd.runtime_wrappers", _let_out_overloads_return_out)
    for module in _TORCHAO:
        _actions.after(module, partial(_lower_torchao, module))
    for module in _ENVIRONMENT_CHECKS:
        _actions.after(module, partial(_silence_environment_check, module))
    _actions.after("torch._dynamo.variables.optimizer", _patch_optimizers)
    _actions.after("torch._dynamo.variables.torch", _keep_traced_functions)
    _actions.after("torch._dynamo.variables.tensor", _keep_traced_methods)
    _actions.after("torch_npu.utils._step", _have_no_silent_check)
    _actions.after("torch_npu.profiler.profiler_interface", _refuse_profiling)
    _actions.after("torch_npu", _after_torch_npu)
    _actions.before("torch_npu.dynamo.torchair", _remember_signals)
    _actions.around("torch_npu.dynamo.torchair", _having_pkg_resources)
    _actions.after("torch_npu.dynamo.torchair", _after_torchair)
    _actions.before("torch_npu.dynamo.npugraph_ex", _load_torchair_first)
    _actions.after("torch_npu.dynamo.npugraph_ex", _after_npugraph_ex)
    _actions.after("npugraph_ex.configs.compiler_config", _patch_configuration)
    _actions.after(_MESSAGES, _patch_recv)
    for compiler in ("npugraph_ex", "torchair"):
        _actions.after(f"{compiler}.patterns.add_rms_norm_quant", partial(_patch_pattern, compiler))
        _actions.after(f"{compiler}.patterns.pattern_pass_manager", partial(_skip_undescribed_patterns, compiler))
        _actions.after(f"{compiler}._utils", partial(_patch_registration, compiler))
        _actions.after(f"{compiler}._utils.graph_transform_observer", partial(_add_module_paths, compiler))
        _actions.after(f"{compiler}._acl_concrete_graph.replace_stream_event", partial(_patch_streams, compiler))
        _actions.after(f"{compiler}._acl_concrete_graph.graph_pass", partial(_patch_reinplace, compiler))
        _actions.after(
            f"{compiler}._acl_concrete_graph.fx2acl_converter", partial(_define_functions_of_sizes, compiler)
        )
        _actions.after(f"{compiler}._acl_concrete_graph.static_kernel", partial(_refuse_static_kernels, compiler))
        _actions.after(f"{compiler}.npu_fx_compiler", partial(_extend_compiler, compiler))
        _actions.after(f"{compiler}._acl_concrete_graph.acl_graph", partial(_patch_capture, compiler))
    if "torch" in sys.modules and "torch_npu" not in sys.modules:
        import torch_npu  # noqa: F401


def run_after_import(module: str, action: "Callable[[], None]") -> None:
    """Run `action` after a module is imported; at once if it is."""
    _actions.after(module, action)


def _choose_runtime() -> None:
    if choose() is not HOST:
        from ..chip import let_kernels_answer

        let_kernels_answer()


def _choose_triton_interpreter() -> None:
    if choose() is HOST:
        from ..host import triton

        triton.choose_interpreter()


def _extend_triton() -> None:
    if choose() is HOST:
        from ..host import triton

        triton.start()


def _silence_environment_check(module: str) -> None:
    """Drop torch_npu's warning that CANN's environment is not set: the host device does not need it."""
    names = vars(sys.modules[module])
    if chosen() is HOST and "_cann_package_check" in names:
        names["_cann_package_check"] = lambda: None


def _name_triton_key() -> None:
    """Have the key of Triton 3.6 where torch_npu before 2.11 asks for it, also for Inductor's code of the CPU."""
    compiler = vars(sys.modules["triton.compiler.compiler"])
    if "triton_key" not in compiler:
        from triton.runtime import cache

        compiler["triton_key"] = vars(cache).get("triton_key")


def _have_no_silent_check() -> None:
    """Let the device have the oldest check of silent errors, for which torch_npu 2.9.0 asks CANN while it loads."""
    if chosen() is HOST:
        vars(sys.modules["torch_npu._C"])["_get_silent_check_version"] = lambda: 1


def _serialize_backend_creation() -> None:
    """Serialise the first use of the npu backend by several threads, which imports TorchAir."""
    from threading import RLock

    dynamo = sys.modules["torch_npu.dynamo"]
    create, lock = vars(dynamo)["_get_global_npu_backend"], RLock()

    def create_with_option(*args: "Any", **kwargs: "Any") -> "Any":
        from .dumping import take_option

        return take_option(create(*args, **kwargs))

    def create_locked(*args: "Any", **kwargs: "Any") -> "Any":
        with lock:
            backend = create_with_option(*args, **kwargs)
            vars(dynamo)["_get_global_npu_backend"] = create_with_option
            return backend

    vars(dynamo)["_get_global_npu_backend"] = create_locked


def _after_torch_npu() -> None:
    # The objects that are created here live as long as the process; collecting garbage among torch's objects is slow.
    collects = gc.isenabled()
    gc.disable()
    try:
        _register()
    finally:
        if collects:
            gc.enable()


def _register() -> None:
    _serialize_backend_creation()
    if choose() is HOST:
        from ..host import capture, device

        device.register()
        capture.start()
    # Not through the package: importing it may be what imports torch_npu.
    from ..meta.registration import register as infer_and_execute

    infer_and_execute()
    if choose() is HOST:
        from ..host import collectives, device

        device.register_records()
        collectives.register()
        from . import stand_ins

        stand_ins.install()


def _patch_pattern(compiler: str) -> None:
    from .compiler_patches import patch_example

    patch_example(sys.modules[f"{compiler}.patterns.add_rms_norm_quant"])


def _skip_undescribed_patterns(compiler: str) -> None:
    if choose() is HOST:
        from .compiler_patches import skip_undescribed_patterns

        skip_undescribed_patterns(sys.modules[f"{compiler}.patterns.pattern_pass_manager"])


def _patch_registration(compiler: str) -> None:
    from .compiler_patches import patch_registration

    patch_registration(sys.modules[f"{compiler}._utils"])


def _add_module_paths(compiler: str) -> None:
    from .compiler_patches import add_module_paths

    add_module_paths(sys.modules[f"{compiler}._utils.graph_transform_observer"])


def _patch_reinplace(compiler: str) -> None:
    from .compiler_patches import keep_overlapping_operands, keep_scattered_tensors

    module = sys.modules[f"{compiler}._acl_concrete_graph.graph_pass"]
    keep_overlapping_operands(module)
    keep_scattered_tensors(module)


def _define_functions_of_sizes(compiler: str) -> None:
    from .compiler_patches import define_functions_of_sizes

    define_functions_of_sizes(sys.modules[f"{compiler}._acl_concrete_graph.fx2acl_converter"])


def _refuse_static_kernels(compiler: str) -> None:
    if choose() is HOST:
        from ..host import torchair

        torchair.refuse_static_kernels(sys.modules[f"{compiler}._acl_concrete_graph.static_kernel"])


def _extend_compiler(compiler: str) -> None:
    from ..releases.compilers import complete_compiler
    from .compiler_patches import fuse_first, save_random_results

    module = sys.modules[f"{compiler}.npu_fx_compiler"]
    complete_compiler(vars(module))
    fuse_first(module)
    save_random_results(module)
    if choose() is HOST:
        from ..host import torchair

        torchair.run_on_input_device(module)


def _patch_capture(compiler: str) -> None:
    from .compiler_patches import keep_marks_of_stale_outputs, recapture_for_numbers

    module = sys.modules[f"{compiler}._acl_concrete_graph.acl_graph"]
    recapture_for_numbers(module)
    keep_marks_of_stale_outputs(module)
    if choose() is HOST:
        from ..host import torchair

        torchair.update_on_graph_device(module)
        torchair.rebind_inputs(module)


def _patch_configuration() -> None:
    from .compiler_patches import patch_configuration

    patch_configuration(sys.modules["npugraph_ex.configs.compiler_config"])


def _patch_recv() -> None:
    from .compiler_patches import patch_recv

    patch_recv(sys.modules[_MESSAGES])


def _refuse_profiling() -> None:
    if choose() is HOST:
        from ..host import profiling

        profiling.refuse(sys.modules["torch_npu.profiler.profiler_interface"])


def _patch_streams(compiler: str) -> None:
    from .streams import patch_npugraph_ex, patch_torchair

    patch = {"npugraph_ex": patch_npugraph_ex, "torchair": patch_torchair}[compiler]
    patch(sys.modules[f"{compiler}._acl_concrete_graph.replace_stream_event"])


def _skip_in_dynamo() -> None:
    """Keep Dynamo from tracing the Python kernels of eager operators after a graph break: a device has no Python there.

    In a graph that is traced through them, as the engine's are, they are inlined as any other function.
    """
    from ..releases.alternatives import inline_when_called

    rules = vars(sys.modules["torch._dynamo.trace_rules"])
    for package in ("host", "meta", "reference", "releases", "extensions"):
        rules["add"](f"graph_quant.{package}")
        inline_when_called(rules, rules["SKIP_DIRS"][-1])
    if choose() is HOST and (triton := find_spec("triton")) is not None:
        # Launches are no part of a graph; not by `add`, which would import Triton.
        rules["SKIP_DIRS"].extend(f"{folder}/runtime/" for folder in triton.submodule_search_locations or ())
        rules["_recompile_re"]()


def _patch_optimizers() -> None:
    from .optimizers import make_capturable, trace_supported_devices

    make_capturable(sys.modules["torch._dynamo.variables.optimizer"])
    trace_supported_devices()


def _keep_traced_functions() -> None:
    from . import traced_numbers

    traced_numbers.keep_functions(sys.modules["torch._dynamo.variables.torch"])


def _keep_traced_methods() -> None:
    from . import traced_numbers

    traced_numbers.keep_methods(sys.modules["torch._dynamo.variables.tensor"])


def _raise_refusals() -> None:
    from . import traced_refusals

    traced_refusals.patch(sys.modules["torch._dynamo.exc"])


def _report_progress() -> None:
    from . import compile_progress

    callbacks = sys.modules["torch._dynamo.callback"]
    compile_progress.report(callbacks.on_compile_start, callbacks.on_compile_end)


def _let_out_overloads_return_out() -> None:
    """torch_npu's `out` overloads, which captures call, return `out`, and their schemas do not say so.

    PyTorch checks the first call of a compiled function for that, and fails where the environment variable CI is set.
    """
    wrappers = sys.modules["torch._functorch._aot_autograd.runtime_wrappers"]
    if not hasattr(wrappers, "_check_custom_op_aliasing"):  # before torch 2.11
        return
    check = wrappers._check_custom_op_aliasing

    def _check_custom_op_aliasing(name: str, *args: "Any") -> None:
        if not (name.startswith("npu::") and name.endswith(".out")):
            check(name, *args)

    vars(wrappers)["_check_custom_op_aliasing"] = _check_custom_op_aliasing


def _lower_torchao(module: str) -> None:
    from .torchao_linears import patch

    patch(sys.modules[module])


def _load_torchair_first() -> None:
    """Both compilers define the same operators, and only npugraph_ex checks whether they are defined already."""
    import torch_npu.dynamo.torchair  # noqa: F401

    _remember_signals()


def _after_npugraph_ex() -> None:
    if choose() is HOST:
        from ..host import torchair

        torchair.restore_signals(vars(sys.modules["torch_npu.dynamo.npugraph_ex"]).get("_signal_handler"))


def _having_pkg_resources() -> "AbstractContextManager[None]":
    from ..releases.distributions import having_pkg_resources

    return having_pkg_resources()


def _remember_signals() -> None:
    """Store the signal handlers, which the import of TorchAir replaces."""
    if choose() is HOST:
        from ..host import torchair

        torchair.remember_signals()


def _after_torchair() -> None:
    from ..converters import register as lower_operators

    if choose() is HOST:
        from ..host import torchair

        torchair.restore_signals(vars(sys.modules["torchair.core._backend"]).get("_signal_handler"))
    lower_operators()
    from .compiling import extend

    extend(on_host=choose() is HOST)

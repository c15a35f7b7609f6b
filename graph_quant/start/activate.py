"""Makes this process ready: whichever of torch, torch_npu and TorchAir it imports will work.

Importing this module is cheap and loads none of them; a process where they are loaded already is made
ready at once.
"""

import gc
import sys
from functools import partial

from .imports import ImportActions
from .preload import HOST, HostNpuError, choose, chosen

_actions = ImportActions()
_MESSAGES = "torchair._ge_concrete_graph.ge_converter.experimental.hcom_send_recv"


def activate() -> None:
    """Prepare for, or catch up with, the import of torch_npu and TorchAir."""
    if "torch._C" in sys.modules and "torch" not in sys.modules:
        raise HostNpuError(
            "an earlier `import torch` failed in this process and cannot be tried again: "
            "restart Python (in a notebook: the kernel) and import graph_quant before torch"
        )
    _actions.before("torch", _choose_runtime)
    _actions.before("torch_npu", _choose_runtime)
    _actions.install()
    _actions.after("torch._dynamo.trace_rules", _keep_dynamo_out)
    _actions.after("torch_npu._init.registry.registry_manager", _silence_environment_check)
    _actions.after("torch_npu.profiler.profiler_interface", _refuse_profiling)
    _actions.after("torch_npu", _torch_npu_is_there)
    _actions.before("torch_npu.dynamo.torchair", _remember_signals)
    _actions.after("torch_npu.dynamo.torchair", _torchair_is_there)
    _actions.before("torch_npu.dynamo.npugraph_ex", _load_torchair_first)
    _actions.after("torch_npu.dynamo.npugraph_ex", _npugraph_ex_is_there)
    _actions.after("npugraph_ex.configs.compiler_config", _mend_configuration)
    _actions.after(_MESSAGES, _mend_receiving)
    for compiler in ("npugraph_ex", "torchair"):
        _actions.after(f"{compiler}.patterns.add_rms_norm_quant", partial(_mend_pattern, compiler))
        _actions.after(f"{compiler}._utils", partial(_mend_registration, compiler))
        _actions.after(f"{compiler}._utils.graph_transform_observer", partial(_tell_modules, compiler))
        _actions.after(f"{compiler}._acl_concrete_graph.replace_stream_event", partial(_mend_streams, compiler))
        _actions.after(f"{compiler}._acl_concrete_graph.static_kernel", partial(_refuse_static_kernels, compiler))
        _actions.after(f"{compiler}.npu_fx_compiler", partial(_run_on_its_device, compiler))
        _actions.after(f"{compiler}._acl_concrete_graph.acl_graph", partial(_mend_capture, compiler))
    if "torch" in sys.modules and "torch_npu" not in sys.modules:
        import torch_npu  # noqa: F401


def _choose_runtime() -> None:
    choose()


def _silence_environment_check() -> None:
    """Drop torch_npu's remark that CANN's environment is not set: on the host there is none to set."""
    if chosen() is HOST:
        manager = sys.modules["torch_npu._init.registry.registry_manager"]
        vars(manager)["_cann_package_check"] = lambda: None


def _make_backends_one_at_a_time() -> None:
    """Let threads that use the npu backend first, at the same time, wait for the one that imports TorchAir."""
    from threading import RLock

    dynamo = sys.modules["torch_npu.dynamo"]
    make, turn = vars(dynamo)["_get_global_npu_backend"], RLock()

    def in_turn(*args: object, **kwargs: object) -> object:
        with turn:
            made = make(*args, **kwargs)
            vars(dynamo)["_get_global_npu_backend"] = make
            return made

    vars(dynamo)["_get_global_npu_backend"] = in_turn


def _torch_npu_is_there() -> None:
    # What is made here lives as long as the process. Looking for garbage among all that torch has made takes longer.
    collects = gc.isenabled()
    gc.disable()
    try:
        _register()
    finally:
        if collects:
            gc.enable()


def _register() -> None:
    _make_backends_one_at_a_time()
    if choose() is HOST:
        from ..host import capture, device

        device.register()
        capture.start()
    # Not by the package's door: importing that may be what brings torch_npu.
    from ..meta.registration import register as infer_and_execute

    infer_and_execute()
    if choose() is HOST:
        from ..host import collectives, device

        device.register_records()
        collectives.register()


def _mend_pattern(compiler: str) -> None:
    from .compiler_patches import mend_example

    mend_example(sys.modules[f"{compiler}.patterns.add_rms_norm_quant"])


def _mend_registration(compiler: str) -> None:
    from .compiler_patches import mend_registration

    mend_registration(sys.modules[f"{compiler}._utils"])


def _tell_modules(compiler: str) -> None:
    from .compiler_patches import tell_modules

    tell_modules(sys.modules[f"{compiler}._utils.graph_transform_observer"])


def _refuse_static_kernels(compiler: str) -> None:
    if choose() is HOST:
        from ..host import torchair

        torchair.refuse_static_kernels(sys.modules[f"{compiler}._acl_concrete_graph.static_kernel"])


def _run_on_its_device(compiler: str) -> None:
    if choose() is HOST:
        from ..host import torchair

        torchair.run_on_its_device(sys.modules[f"{compiler}.npu_fx_compiler"])


def _mend_capture(compiler: str) -> None:
    from .compiler_patches import mend_numbers

    module = sys.modules[f"{compiler}._acl_concrete_graph.acl_graph"]
    mend_numbers(module)
    if choose() is HOST:
        from ..host import torchair

        torchair.update_on_its_device(module)
        torchair.give_what_is_written(module)


def _mend_configuration() -> None:
    from .compiler_patches import mend_configuration

    mend_configuration(sys.modules["npugraph_ex.configs.compiler_config"])


def _mend_receiving() -> None:
    from .compiler_patches import mend_receiving

    mend_receiving(sys.modules[_MESSAGES])


def _refuse_profiling() -> None:
    if choose() is HOST:
        from ..host import profiling

        profiling.refuse(sys.modules["torch_npu.profiler.profiler_interface"])


def _mend_streams(compiler: str) -> None:
    from .streams import mend_npugraph_ex, mend_torchair

    mend = {"npugraph_ex": mend_npugraph_ex, "torchair": mend_torchair}[compiler]
    mend(sys.modules[f"{compiler}._acl_concrete_graph.replace_stream_event"])


def _keep_dynamo_out() -> None:
    """After a graph break Dynamo also traces what runs below eager operators: on a device there is no Python there.

    In a graph that is traced through them, as the engine's are, they stay functions like any other.
    """
    from ..releases.alternatives import inline_when_called

    rules = vars(sys.modules["torch._dynamo.trace_rules"])
    for package in ("host", "meta", "reference"):
        rules["add"](f"graph_quant.{package}")
        inline_when_called(rules, rules["SKIP_DIRS"][-1])


def _load_torchair_first() -> None:
    """Both compilers define the same operators, and only npugraph_ex looks whether they are there already."""
    import torch_npu.dynamo.torchair  # noqa: F401

    _remember_signals()


def _npugraph_ex_is_there() -> None:
    if choose() is HOST:
        from ..host import torchair

        torchair.restore_signals(vars(sys.modules["torch_npu.dynamo.npugraph_ex"])["_signal_handler"])


def _remember_signals() -> None:
    """TorchAir replaces the signal handlers when it is imported; the host puts them back afterwards."""
    if choose() is HOST:
        from ..host import torchair

        torchair.remember_signals()


def _torchair_is_there() -> None:
    from ..converters import register as lower_operators

    if choose() is HOST:
        from ..host import torchair

        torchair.restore_signals(vars(sys.modules["torchair.core._backend"]).get("_signal_handler"))
    lower_operators()
    from .compiling import extend

    extend(on_host=choose() is HOST)

"""What other releases of torch and torch_npu call a private name, or do instead of it.

Each function stands for one name that moved, and looks for what is there; no other module asks for a version.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import and_, or_
from typing import Any, cast

import torch

_WORD = ctypes.sizeof(ctypes.c_void_p)


def inline_when_called(trace_rules: dict[str, Any], folder: str) -> None:
    """Let Dynamo trace into functions below ``folder`` when traced code calls them, though it skips frames there.

    Args:
        trace_rules: The namespace of ``torch._dynamo.trace_rules``.
        folder: The start of the files' paths.
    """
    if "BUILTIN_INLINE_WHEN_CALLED" in trace_rules:
        trace_rules["BUILTIN_INLINE_WHEN_CALLED"].add(folder)
        return
    # Before torch 2.11 only this function is asked for calls alone.
    is_allowed = trace_rules["is_torch_inline_allowed"]
    trace_rules["is_torch_inline_allowed"] = lambda file: is_allowed(file) or file.startswith(folder)


def premul_factor(operation: Any) -> Any:
    """The factor of a ``ReduceOp.PREMUL_SUM``, which before torch 2.11 only its pickled state shows."""
    return operation.factor if hasattr(operation, "factor") else operation.__getstate__()[1]


def reduction(operation: Any) -> int:
    """The number of the ``ReduceOp`` that a c10d operator is called with."""
    if hasattr(operation, "op"):
        return int(operation.op())
    # Before torch 2.10 only C++ can ask.
    default = _reduce_op(torch.classes.c10d.ReduceOp())
    found = _reduce_op(operation)
    if found[0] != default[0] or default[1] != 0:  # another class: this release has another layout
        raise RuntimeError(f"the reduction of a collective cannot be read with torch {torch.__version__}")
    return found[1]


def _reduce_op(operation: Any) -> tuple[int, int]:
    """The address of the class's functions, and the number, of a ``c10d::ReduceOp`` in a script object."""

    def word(address: int) -> int:
        return ctypes.c_uint64.from_address(address).value

    script_object = word(word(id(operation) + 2 * _WORD))  # held by the Python object, after its header
    slots = word(script_object + 10 * _WORD)  # after reference counts, compilation unit and type
    reduce_op = word(slots)
    return word(reduce_op), ctypes.c_uint8.from_address(reduce_op + 2 * _WORD).value


def has_traced_streams() -> bool:
    """Whether PyTorch traces streams and events itself, as it does since torch 2.10, and numbers them."""
    return importlib.util.find_spec("torch._dynamo.graph_bytecode_inputs") is not None


def optimization_hint(size: int | torch.SymInt, fallback: int) -> int:
    """The size that a symbol had when it was traced, without a guard; ``fallback`` where it had none."""
    shapes: Any = importlib.import_module("torch.fx.experimental.symbolic_shapes")
    return int((getattr(shapes, "optimization_hint", None) or shapes.hint_int)(size, fallback))


def guard_or_false(condition: bool | torch.SymBool) -> bool:
    """Whether a condition holds, with a guard; False where symbolic sizes leave it open."""
    shapes: Any = importlib.import_module("torch.fx.experimental.symbolic_shapes")
    return bool((getattr(shapes, "guard_or_false", None) or shapes.definitely_true)(condition))


def guard_or_true(condition: bool | torch.SymBool) -> bool:
    """Whether a condition holds, with a guard; True where symbolic sizes leave it open."""
    shapes: Any = importlib.import_module("torch.fx.experimental.symbolic_shapes")
    if hasattr(shapes, "guard_or_true"):
        return bool(shapes.guard_or_true(condition))
    return not shapes.definitely_false(condition)


def sym_or(*conditions: bool | torch.SymBool) -> bool | torch.SymBool:
    """Whether any of the conditions holds, without a guard."""
    return _joined("sym_or", or_, conditions)


def sym_and(*conditions: bool | torch.SymBool) -> bool | torch.SymBool:
    """Whether all of the conditions hold, without a guard."""
    return _joined("sym_and", and_, conditions)


def _joined(name: str, join: Callable[[Any, Any], Any], conditions: tuple[Any, ...]) -> bool | torch.SymBool:
    shapes: Any = importlib.import_module("torch.fx.experimental.symbolic_shapes")
    if hasattr(shapes, name):  # since torch 2.8
        return cast("bool | torch.SymBool", getattr(shapes, name)(*conditions))
    return cast("bool | torch.SymBool", functools.reduce(join, conditions))


def is_non_overlapping_and_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements of a tensor fill its memory without gaps; False where symbolic sizes leave it open."""
    common: Any = torch._prims_common
    if hasattr(common, "is_non_overlapping_and_dense_or_false"):
        return bool(common.is_non_overlapping_and_dense_or_false(tensor))
    return bool(common.is_non_overlapping_and_dense(tensor))


@contextmanager
def compile_session() -> Iterator[None]:
    """Let ``torch.compiler.is_compiling()`` be true."""
    if hasattr(torch.compiler, "_compile_session_context"):
        with torch.compiler._compile_session_context():
            yield
        return
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


@contextmanager
def writing_extern_calls(writers: Mapping[str, Callable[..., None]]) -> Iterator[None]:
    """Let Inductor call a function where it writes the call of an operator.

    Where Inductor has no such table its code calls the dispatcher.
    """
    try:
        codegen: Any = importlib.import_module("torch._inductor.codegen.custom_extern_kernel_codegen")
    except ImportError:  # before torch 2.13
        yield
        return
    table = codegen.CUSTOM_EXTERN_KERNEL_CODEGEN
    own = {name: codegen.CustomCodegen(python=write) for name, write in writers.items() if name not in table}
    table.update(own)
    try:
        yield
    finally:
        for name in own:
            del table[name]


def current_raw_stream() -> Callable[[int], int]:
    """The function that returns this thread's current stream of a device, without waiting where there is such a one."""
    bindings: Any = importlib.import_module("torch_npu")._C
    name = "_npu_getCurrentRawStreamNoWait"
    found: Callable[[int], int] = getattr(bindings, name if hasattr(bindings, name) else "_npu_getCurrentRawStream")
    return found


def end_allocation_to_pool(device: int, pool: Any) -> None:
    """Let torch_npu's allocator of a device no longer take memory from a graph's pool."""
    bindings: Any = importlib.import_module("torch_npu")._C
    # Until torch_npu 2.10 only what the current stream allocates can be directed to a pool.
    name = "_npu_endAllocateToPool"
    getattr(bindings, name if hasattr(bindings, name) else "_npu_endAllocateCurrentStreamToPool")(device, pool)


def implement(library: torch.library.Library, name: str, kernel: Callable[..., Any], key: str) -> None:
    """Register the kernel of an operator for a dispatch key, also where it has one."""
    if "allow_override" in inspect.signature(library.impl).parameters:
        library.impl(name, kernel, key, allow_override=True)
        return
    # Before torch 2.8 only a kernel that another Python library registered is in the way.
    torch.library._impls.discard(f"{library.ns}/{name.rpartition('::')[2]}/{key}")
    library.impl(name, kernel, key)


def register_fake(library: torch.library.Library, name: str, holder: Any, infer: Callable[..., Any]) -> None:
    """Register an operator's fake implementation, also where it has one, while ``library`` lives."""
    if "lib" in inspect.signature(holder.register).parameters:
        handle = holder.register(infer, source=infer.__module__, lib=library, allow_override=True)
        library._registration_handles.append(handle)
        return
    # Before torch 2.8 an operator has at most one.
    fake: Any = importlib.import_module("torch._library.fake_impl")
    before, holder.kernel = holder.kernel, fake.Kernel(infer, infer.__module__)
    implement(library, name, fake.construct_meta_kernel(name, holder), "Meta")
    library._registration_handles.append(fake.RegistrationHandle(lambda: setattr(holder, "kernel", before)))


def register_ordered_effect(library: torch.library.Library, name: str) -> None:
    """Mark an operator as one that compilers neither drop nor move past another such operator."""
    try:
        effects: Any = importlib.import_module("torch._library.effects")
        library._register_effectful_op(name, effects.EffectType.ORDERED)
    except ImportError:  # before torch 2.10
        effects = importlib.import_module("torch._higher_order_ops.effects")
        namespace, _, operator = name.partition("::")
        overload = getattr(getattr(torch.ops, namespace), operator).default
        effects._register_effectful_op(overload, effects._EffectType.ORDERED)


def source_name(source: Any) -> str:
    """The expression of a ``torch._guards.Source``, whose name was a method before torch 2.10."""
    return str(source.name() if callable(source.name) else source.name)


def traced_module() -> torch.nn.Module | None:
    """The module of which Dynamo traces the forward now; None if it is another function, or unknown."""
    try:
        translator: Any = importlib.import_module("torch._dynamo.symbolic_convert").InstructionTranslator
        names = translator.current_tx().f_locals
    except (AttributeError, ImportError):
        return None
    # Dynamo calls the forward of a module of torch through a function of its own, which holds the module as fn.
    owners = (names.get("self"), names.get("fn"))
    return next((owner for owner in owners if isinstance(owner, torch.nn.Module)), None)

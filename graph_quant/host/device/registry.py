"""Registers the kernels of the host NPU for ATen operators, instead of torch_npu's.

A kernel is created when its operator is first called: looking up two thousand schemas would slow down every import.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from ...dispatcher import overload
from .. import recording
from ..devices import with_device_guard
from . import (
    add_alpha,
    atb,
    attention,
    autograd,
    average_volume,
    convolution,
    copies,
    decompositions,
    fft,
    foreach_numbers,
    grid_sample,
    integer_ops,
    kernels,
    linalg,
    linspace,
    matmul,
    missing_cpu_kernels,
    norms,
    optimizers,
    random_ops,
    repeat_interleave,
    rnn,
    sparse,
    strided_inputs,
    zeros,
)
from . import pow as power
from .scalar_args import accept_numbers
from .startup import silence_initialization

_DEVICE = "PrivateUse1"
_AUTOGRAD = "AutogradPrivateUse1"

COMPOSED = {**random_ops.COMPOSED, **attention.COMPOSED, **copies.COMPOSED, **decompositions.COMPOSED}
# Each module declares the operators that it wraps. They are applied in this order: the last is called first.
WRAPPERS: tuple[Mapping[str, kernels.Wrapper], ...] = (
    matmul.WRAPPERS,
    integer_ops.WRAPPERS,
    add_alpha.WRAPPERS,
    norms.WRAPPERS,
    grid_sample.WRAPPERS,
    linspace.WRAPPERS,
    average_volume.WRAPPERS,
    decompositions.WRAPPERS,
    convolution.WRAPPERS,
    fft.WRAPPERS,
    linalg.WRAPPERS,
    power.WRAPPERS,
    optimizers.WRAPPERS,
    foreach_numbers.WRAPPERS,
    strided_inputs.WRAPPERS,
    zeros.WRAPPERS,
)

# Those that a replay applies too, to the CPU's kernels. It has products and zeros of its own.
_OF_REPLAYS = tuple(wrappers for wrappers in WRAPPERS if wrappers not in (matmul.WRAPPERS, zeros.WRAPPERS))

# Allocation, views and storage: torch_npu's own kernels need no device code.
_LEFT_TO_TORCH_NPU = frozenset(
    f"aten::{name}"
    for name in (
        "_has_compatible_shallow_copy_type",
        "_lazy_clone",
        "_pin_memory",
        "_reshape_alias",
        "alias",
        "as_strided",
        "as_strided_",
        "empty.memory_format",
        "empty_like",
        "empty_strided",
        "is_pinned",
        "is_set_to",
        "new_empty_strided",
        "record_stream",
        "resize_",
        "resize_as_",
        "set_",
        "set_.source_Storage",
        "set_.source_Storage_storage_offset",
        "set_.source_Tensor",
        "squeeze",
        "squeeze.dim",
        "unfold",
        "unsqueeze",
        "view",
    )
)
# Common operators that are not structured, whose results follow from their arguments' shapes and are no views.
_INFERABLE = frozenset(
    f"aten::{name}"
    for name in (
        "abs",
        "embedding",
        "index_select",
        "matmul",
        "mean",
        "relu",
        "repeat",
        "rsub.Scalar",
        "softmax.int",
        "stack",
        "sum",
        "where.self",
    )
)

# Composites of PyTorch that work on the CPU, CUDA and few other devices alone: run as a whole on the CPU.
_COMPOSITES_OF_THE_CPU = frozenset(("aten::conj_physical_", "aten::mode.values"))

_libraries: list[Any] = []


def register() -> None:
    """Register every ATen operator that runs on the CPU; refuse by name the npu:: operators that have no reference."""
    if _libraries:
        return
    registered = _names(_DEVICE)
    on_cpu, implicit = _names("CPU"), _names("CompositeImplicitAutograd")
    explicit = _names("CompositeExplicitAutograd") | _names("CompositeExplicitAutogradNonFunctional")
    candidates = (on_cpu - implicit) | (registered & (implicit | explicit))
    # Not every release of torch has all of these.
    named = {matmul.GROUPED, *_COMPOSITES_OF_THE_CPU}.intersection(torch._C._dispatch_get_all_op_names())
    supported = {name for name in candidates if name.startswith("aten::")} | named
    aten: Any = torch._C._dispatch_library("IMPL", "aten", "", __file__, 0)
    for name in supported - _LEFT_TO_TORCH_NPU:
        aten.impl(name, _DEVICE, with_device_guard(name, _lazy_kernel(name)), False)
    for name in _without_cpu_kernel(registered - supported):
        kernel = copies.KERNELS.get(name) or missing_cpu_kernels.kernel_for(name)
        aten.impl(name, _DEVICE, with_device_guard(name, kernel), False)
    sparse.register(aten)
    for name in _names(_AUTOGRAD):
        if name in implicit or name in supported:
            kernel = COMPOSED.get(name) or _lazy_autograd_kernel(name)
            aten.impl(name, _AUTOGRAD, with_device_guard(name, kernel), False)
    refused = {name for name in registered if name.startswith("npu::")} - _npu_operators_without_device_code()
    npu: Any = torch._C._dispatch_library("IMPL", "npu", "", __file__, 0)
    for name in refused:
        npu.impl(name, _DEVICE, COMPOSED.get(name) or _refusal(name), False)
        if name in COMPOSED:
            npu.impl(name, _AUTOGRAD, COMPOSED[name], False)
    for name, kernel in random_ops.FACTORIES.items():
        npu.impl(name, "CompositeImplicitAutograd", kernel, False)
    _libraries.extend((aten, npu))
    atb.refuse_by_name()
    silence_initialization()


def kernel_for(name: str) -> kernels.Kernel:
    """Create the kernel of one ATen operator on npu tensors."""
    op = overload(name)
    if kernel := copies.KERNELS.get(name) or COMPOSED.get(name):
        return kernel
    if name in rnn.NAMES:
        return rnn.with_npu_dropout(op, kernels.functional(op))
    if _is_composite(name):
        return kernels.composite(op, find_out_variant(name, op))
    if op._schema.is_mutable:
        kernel = kernels.mutating(op)
    elif (out := find_out_variant(name, op)) is not None:
        kernel = kernels.structured(op, out)
    else:
        kernel = kernels.functional(op)
    for wrappers in WRAPPERS:
        if name in wrappers:
            kernel = wrappers[name](op, kernel)
    if any(argument.name == "generator" for argument in op._schema.arguments):
        return kernels.random(op, kernel)
    return accept_numbers(op, kernel, lambda sibling: kernel_for(sibling.name()))


def wrapped_kernel(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> kernels.Kernel | None:
    """Return the function that computes a call on CPU tensors as the eager kernel does; None if the CPU kernel does."""
    name = op.name()
    applied = [wrappers for wrappers in _OF_REPLAYS if name in wrappers]
    if strided_inputs.WRAPPERS in applied and not strided_inputs.concerns(args, kwargs):
        applied.remove(strided_inputs.WRAPPERS)
    if add_alpha.WRAPPERS in applied and (kwargs["alpha"] if "alpha" in kwargs else (*args, 1, 1)[2]) == 1:
        applied.remove(add_alpha.WRAPPERS)
    if not applied:
        return None
    kernel: kernels.Kernel = op._op
    for wrappers in applied:
        kernel = wrappers[name](op, kernel)
    return kernel


def _is_composite(name: str) -> bool:
    """Whether PyTorch composes an operator of others on the CPU too."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return has_kernel(name, "CompositeImplicitAutograd") and not has_kernel(name, "CPU")


def find_out_variant(name: str, op: OpOverload) -> OpOverload | None:
    """Return the out= overload of an operator whose result can be inferred from its arguments' shapes alone."""
    structured = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeExplicitAutogradNonFunctional")
    return find_matching_out(op) if structured or name in _INFERABLE else None


def find_matching_out(op: OpOverload) -> OpOverload | None:
    """Return the out= overload of an operator with one result, if it has the same other arguments."""
    if len(op._schema.returns) != 1:
        return None
    if any(argument.name == "reduction" for argument in op._schema.arguments):
        return None  # losses write all elements into the output before they reduce them: it must be free to grow
    for candidate in op.overloadpacket.overloads():
        out: OpOverload = getattr(op.overloadpacket, candidate)
        inputs = [(argument.name, str(argument.type)) for argument in out._schema.arguments if not argument.is_out]
        same_inputs = inputs == [(argument.name, str(argument.type)) for argument in op._schema.arguments]
        if out._schema.is_mutable and len(inputs) + 1 == len(out._schema.arguments) and same_inputs:
            return out
    return None


def _names(key: str) -> set[str]:
    return set(torch._C._dispatch_get_registrations_for_dispatch_key(key))


def _without_cpu_kernel(names: set[str]) -> set[str]:
    """Return the aten:: operators that PyTorch defines: torch_npu registers others there, which have no schema."""
    aten = {name for name in names if name.startswith("aten::")} - _LEFT_TO_TORCH_NPU
    return {name for name in aten if torch._C._dispatch_dump(name).find("schema: (none)") < 0}


def _lazy_kernel(name: str) -> kernels.Kernel:
    created: kernels.Kernel | None = None
    captured = recording.recording
    takes_blocks = name in matmul.TAKE_BLOCKS
    # In inference mode composites come here without their autograd kernel; they record themselves or their parts.
    records_itself = name in COMPOSED or _is_composite(name)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        nonlocal created
        if takes_blocks:
            matmul.check_blocks(name, args[-1])
        if created is None:
            created = kernel_for(name)
        if captured[0] and not records_itself:
            return recording.record(overload(name), created, args, kwargs)
        return created(*args, **kwargs)

    return kernel


def _lazy_autograd_kernel(name: str) -> kernels.Kernel:
    created: kernels.Kernel | None = None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        nonlocal created
        if created is None:
            created = _differentiable(overload(name))
        return created(*args, **kwargs)

    return kernel


def _differentiable(op: OpOverload) -> kernels.Kernel:
    if op.name() in rnn.NAMES:
        return rnn.with_npu_dropout(op, autograd.differentiable(op))
    if torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd"):
        composed = kernels.composite(op, find_out_variant(op.name(), op))
        return repeat_interleave.sum_gradient_in_float32(composed) if op.name() == repeat_interleave.NAME else composed
    return autograd.differentiable(op)


def _refusal(name: str) -> kernels.Kernel:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{name} cannot run on the host NPU: it has no reference in graph_quant and needs an NPU with CANN"
        )

    return refuse


def _npu_operators_without_device_code() -> set[str]:
    """Return operators that torch_npu runs on the host even with a real device."""
    names = (
        "empty_with_format",
        "unsafe_empty_with_format",
        "get_npu_format",
        "get_storage_size",
        "copy_memory_",
        "npu_change_data_ptr",
        "print_npugraph_tensor",
        "save_npugraph_tensor",
        "set_op_timeout_ms",
        "super_kernel_scope_begin",
        "super_kernel_scope_end",
    )
    variants = ("", ".names", ".memory_format", ".tensor_list")
    return {f"npu::{name}{variant}" for name in names for variant in variants}

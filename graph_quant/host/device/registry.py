"""Says which kernel serves which operator, and puts the kernels in place of torch_npu's.

Kernels are made when an operator is first called: looking up two thousand schemas would cost every import.
"""

from collections.abc import Callable
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
    convolution,
    copies,
    fft,
    grid_sample,
    integer_ops,
    kernels,
    linalg,
    linspace,
    matmul,
    missing_cpu_kernels,
    norms,
    repeat_interleave,
    rnn,
    solve_triangular,
    sparse,
    strided_inputs,
)
from . import pow as power
from .decompositions import COMPOSED as ROUNDING_ALIKE
from .decompositions import in_part
from .random_ops import COMPOSED as DRAWING
from .random_ops import FACTORIES
from .scalar_args import with_numbers
from .startup import keep_quiet

_DEVICE = "PrivateUse1"
_AUTOGRAD = "AutogradPrivateUse1"

COMPOSED = {**DRAWING, **attention.COMPOSED, **copies.COMPOSED, **ROUNDING_ALIKE}

# Allocation, views and storage are torch_npu's own and need no device code.
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
# Operators whose results, too, follow from the shapes of their arguments and are never views: common ones alone.
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

_libraries: list[Any] = []


def register() -> None:
    """Serve every ATen operator that runs on the CPU; refuse by name the npu:: operators that have no reference."""
    if _libraries:
        return
    registered = _names(_DEVICE)
    on_cpu, implicit = _names("CPU"), _names("CompositeImplicitAutograd")
    explicit = _names("CompositeExplicitAutograd") | _names("CompositeExplicitAutogradNonFunctional")
    candidates = (on_cpu - implicit) | (registered & (implicit | explicit))
    served = {name for name in candidates if name.startswith("aten::")} | {matmul.GROUPED}
    aten: Any = torch._C._dispatch_library("IMPL", "aten", "", __file__, 0)
    for name in served - _LEFT_TO_TORCH_NPU:
        aten.impl(name, _DEVICE, with_device_guard(name, _lazy(name)), False)
    for name in _absent(registered - served):
        kernel = copies.KERNELS.get(name) or missing_cpu_kernels.kernel_for(name)
        aten.impl(name, _DEVICE, with_device_guard(name, kernel), False)
    sparse.register(aten)
    for name in _names(_AUTOGRAD):
        if name in implicit or name in served:
            kernel = COMPOSED.get(name) or _lazily(name, _differentiable)
            aten.impl(name, _AUTOGRAD, with_device_guard(name, kernel), False)
    refused = {name for name in registered if name.startswith("npu::")} - _npu_operators_without_device_code()
    npu: Any = torch._C._dispatch_library("IMPL", "npu", "", __file__, 0)
    for name in refused:
        npu.impl(name, _DEVICE, COMPOSED.get(name) or _refusal(name), False)
        if name in COMPOSED:
            npu.impl(name, _AUTOGRAD, COMPOSED[name], False)
    for name, kernel in FACTORIES.items():
        npu.impl(name, "CompositeImplicitAutograd", kernel, False)
    _libraries.extend((aten, npu))
    atb.refuse_by_name()
    keep_quiet()


def kernel_for(name: str) -> kernels.Kernel:
    """Make the kernel that serves one ATen operator on npu tensors."""
    op = overload(name)
    if special := copies.KERNELS.get(name) or COMPOSED.get(name):
        return special
    if name in rnn.NAMES:
        return rnn.without_dropout(op, kernels.functional(op))
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    if has_kernel(name, "CompositeImplicitAutograd") and not has_kernel(name, "CPU"):
        return kernels.composite(op, find_out_variant(name, op))
    if op._schema.is_mutable:
        kernel = kernels.mutating(op)
    elif (out := find_out_variant(name, op)) is not None:
        kernel = kernels.structured(op, out)
    else:
        kernel = kernels.functional(op)
    if name in matmul.IN_FLOAT32:
        kernel = matmul.product(name, kernel)
    if name == matmul.GROUPED:
        kernel = matmul.by_groups(kernel)
    if name in integer_ops.NAMES:
        kernel = integer_ops.through_double(kernel)
    if name in integer_ops.DIVISIONS:
        kernel = integer_ops.without_traps(name, kernel)
    if name in add_alpha.NAMES:
        kernel = add_alpha.rounded_once(name, kernel)
    if name in norms.WITH_WEIGHTS:
        kernel = norms.WITH_WEIGHTS[name](kernel)
    if name in grid_sample.IN_FLOAT32:
        kernel = grid_sample.in_float32(kernel)
    if name == linspace.NAME:
        kernel = linspace.in_float32(kernel)
    kernel = in_part(name, kernel)
    if name in convolution.NAMES:
        kernel = convolution.in_float32(kernel)
    if name in convolution.BACKWARD:
        kernel = convolution.one_by_one(kernel)
    if name in fft.AS_IN_GRAPHS:
        kernel = fft.AS_IN_GRAPHS[name](kernel)
    if name in linalg.WITH_VECTORS:
        kernel = linalg.WITH_VECTORS[name](kernel)
    if name == solve_triangular.NAME:
        kernel = solve_triangular.as_in_graphs(kernel)
    if name in power.NAMES:
        kernel = power.as_wide_as_the_base(kernel)
    if name in strided_inputs.NAMES:
        kernel = strided_inputs.over_contiguous(op, kernel)
    if name in strided_inputs.IN_PLACE:
        kernel = strided_inputs.written_back(kernel)
    if any(argument.name == "generator" for argument in op._schema.arguments):
        return kernels.random(op, kernel)
    return with_numbers(op, kernel, lambda sibling: kernel_for(sibling.name()))


def find_out_variant(name: str, op: OpOverload) -> OpOverload | None:
    """Return the out= variant of an operator whose result can be inferred from its arguments' shapes alone."""
    structured = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeExplicitAutogradNonFunctional")
    return find_matching_out(op) if structured or name in _INFERABLE else None


def find_matching_out(op: OpOverload) -> OpOverload | None:
    """Return the variant of an operator with one result that writes it into a tensor of the right size."""
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


def _absent(names: set[str]) -> set[str]:
    """Return the operators that PyTorch defines: torch_npu also registers its own under aten::, out of reach."""
    mine = {name for name in names if name.startswith("aten::")} - _LEFT_TO_TORCH_NPU
    return {name for name in mine if torch._C._dispatch_dump(name).find("schema: (none)") < 0}


def _lazy(name: str) -> kernels.Kernel:
    made: kernels.Kernel | None = None
    captured = recording.recording

    def kernel(*args: Any, **kwargs: Any) -> Any:
        nonlocal made
        if made is None:
            made = kernel_for(name)
        if captured[0] and name not in COMPOSED:
            return recording.record(overload(name), made, args, kwargs)
        return made(*args, **kwargs)

    return kernel


def _lazily(name: str, make: Callable[[OpOverload], kernels.Kernel]) -> kernels.Kernel:
    made: kernels.Kernel | None = None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        nonlocal made
        if made is None:
            made = make(overload(name))
        return made(*args, **kwargs)

    return kernel


def _differentiable(op: OpOverload) -> kernels.Kernel:
    if op.name() in rnn.NAMES:
        return rnn.without_dropout(op, autograd.differentiable(op))
    if torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd"):
        composed = kernels.composite(op, find_out_variant(op.name(), op))
        return repeat_interleave.summed_in_float32(composed) if op.name() == repeat_interleave.NAME else composed
    return autograd.differentiable(op)


def _refusal(name: str) -> kernels.Kernel:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{name} cannot run on the host NPU: it has no reference in graph_quant and needs an NPU with CANN"
        )

    return refuse


def _npu_operators_without_device_code() -> set[str]:
    """Bookkeeping that torch_npu does on the host side of a real device too."""
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

"""The few kinds of kernel that run ATen operators on npu tensors by their CPU kernels."""

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from .. import recording
from ..alias import NPU, Form, as_cpu, extent, forget_aliases, kept_alias, to_npu
from .arguments import Aliases, as_meta, map_results, signed_call
from .rng import cpu_generator

Kernel = Callable[..., Any]
# Takes an operator and its kernel, and returns the kernel to use instead.
Wrapper = Callable[[OpOverload, Kernel], Kernel]
_empty_strided = torch.empty_strided

# Indexing also takes indices on the CPU: the position of that argument, by operator.
_INDICES = {
    "aten::_index_put_impl_": 1,
    "aten::_unsafe_index.Tensor": 1,
    "aten::_unsafe_index_put": 1,
    "aten::index.Tensor": 1,
    "aten::index.Tensor_out": 1,
    "aten::index_put": 1,
    "aten::index_put.out": 1,
    "aten::index_put_": 1,
}

# Composites that are always run as their parts, because the kernels of the parts, as xlogy of kl_div, round as graphs
# do. PyTorch chooses the parts of a batched product by whether an operand requires a gradient, which a CPU alias never
# does, and by whether out= is passed.
_ALWAYS_COMPOSITE = ("aten::kl_div", "aten::linear", "aten::matmul", "aten::multilabel_margin_loss", "aten::stft")

# Argument names of a dropout probability; the CPU would sample from its own generator.
_DROPOUT_NAMES = ("dropout", "dropout_p")

# How many call signatures an operator caches the result's metadata of.
_MAX_SIGNATURES = 4096


def allows_mixed_devices(op: OpOverload) -> bool:
    """Whether `op` takes CPU tensors with dimensions beside npu tensors."""
    return op.name() in _INDICES or op.name() in ("aten::copy_", "aten::set_.source_Tensor")


def functional(op: OpOverload, may_alias: bool = False) -> Kernel:
    """Compute on the CPU; new results are copied to the NPU, those that alias an argument become views of it."""
    cpu_at = _INDICES.get(op.name())
    may_alias = may_alias or any(result.alias_info is not None for result in op._schema.returns)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        aliases = Aliases(op, cpu_at)
        results = aliases.call(args, kwargs)
        if isinstance(results, Tensor):
            return _to_npu_result(aliases, results) if may_alias else _copy_to_npu(aliases, results)
        return map_results(results, lambda result: _to_npu_result(aliases, result))

    return kernel


def structured(op: OpOverload, out: OpOverload) -> Kernel:
    """Allocate the result on the NPU and let the out= overload write into it: no copy of the result."""
    plain = functional(op)
    known: dict[Any, Form | None] = {}
    output_name = next(argument.name for argument in out._schema.arguments if argument.is_out)
    write = out._op

    def kernel(*args: Any, **kwargs: Any) -> Any:
        call = signed_call(op, args, kwargs)
        if call is None:
            return plain(*args, **kwargs)
        cpu_args, signature = call
        inferred = known.get(signature)
        if inferred is not None:
            size, stride, dtype = inferred
            result = _empty_strided(size, stride, dtype=dtype, device=NPU)
            kwargs[output_name] = kept_alias(result, inferred)
            try:
                write(*cpu_args, **kwargs)
                return result
            except Exception:
                # A wrong call fails again below. An operator that resizes its output on the way cannot do so here.
                forget_aliases(result)
                del kwargs[output_name]
        result = plain(*args, **kwargs)
        if inferred is not None:
            known[signature] = None
        elif signature not in known:
            if len(known) >= _MAX_SIGNATURES:
                known.clear()
            known[signature] = _infer_form(op, args, kwargs, result)
        return result

    return kernel


def _infer_form(op: OpOverload, args: Any, kwargs: dict[str, Any], result: Tensor) -> Form | None:
    """Return the form of a result if PyTorch infers the same from metadata; with masks, for one, data decide sizes."""
    try:
        inferred = op(*map(as_meta, args), **kwargs)
    except Exception:
        return None
    if result.is_complex():  # an operator may mark its output as to be conjugated
        return None
    form = (result.size(), result.stride(), result.dtype)
    return form if (inferred.size(), inferred.stride(), inferred.dtype) == form else None


def mutating(op: OpOverload) -> Kernel:
    """In-place and out= operators: the CPU writes into the same memory, and the npu arguments are returned."""
    cpu_at = _INDICES.get(op.name())
    out_names = [argument.name for argument in op._schema.arguments if argument.is_out]

    def run(args: tuple[Any, ...], kwargs: dict[str, Any], resized: Collection[str]) -> Any:
        aliases = Aliases(op, cpu_at)
        kwargs = dict(kwargs)
        for name in resized:
            outputs = kwargs[name] if isinstance(kwargs[name], (list, tuple)) else [kwargs[name]]
            empty = [torch.empty(0, dtype=output.dtype) for output in outputs]
            aliases.pairs.extend(zip(outputs, empty, strict=True))
            kwargs[name] = empty[0] if isinstance(kwargs[name], Tensor) else empty
        results = aliases.call(args, kwargs)
        for npu, cpu in aliases.pairs:
            _follow_resize(npu, cpu)
        return map_results(results, lambda result: _to_npu_result(aliases, result))

    def kernel(*args: Any, **kwargs: Any) -> Any:
        empty = {name for name in out_names if isinstance(kwargs[name], Tensor) and not kwargs[name].numel()}
        try:
            return run(args, kwargs, empty)
        except RuntimeError as error:
            # An out= tensor of another size: PyTorch resizes it, which memory that belongs to the NPU cannot do.
            outputs = {name for name in out_names if kwargs[name] is not None}
            if "resize storage that is not resizable" not in str(error) or empty == outputs:
                raise
            return run(args, kwargs, outputs)

    return kernel


def random(op: OpOverload, inner: Kernel) -> Kernel:
    """Operators that take a generator sample from the NPU's."""
    position = _generator_position(op)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        bound = list(args)
        if position is not None and position < len(bound):
            bound[position] = cpu_generator(bound[position])
        else:
            kwargs["generator"] = cpu_generator(kwargs.get("generator"))
        return inner(*bound, **kwargs)

    return kernel


def composite(op: OpOverload, out: OpOverload | None = None) -> Kernel:
    """Run an operator that PyTorch composes of others and torch_npu has a kernel of its own for.

    The composite runs as a whole on the CPU, except where autograd, tracing or a dispatch mode must see its parts: then
    they run on npu tensors.
    """
    if op._schema.is_mutable:
        whole = mutating(op)
    else:
        whole = functional(op, may_alias=True) if out is None else structured(op, out)
    implicit = torch._C.DispatchKey.CompositeImplicitAutograd
    run_parts = op._op_dk
    modes_active = torch._C._len_torch_dispatch_stack
    captured = recording.recording
    is_always_composite = op.name() in _ALWAYS_COMPOSITE
    dropout_position = next(
        (i for i, argument in enumerate(op._schema.arguments) if argument.name in _DROPOUT_NAMES), None
    )

    def kernel(*args: Any, **kwargs: Any) -> Any:
        has_dropout = dropout_position is not None and dropout_position < len(args) and args[dropout_position]
        if not modes_active() and not is_always_composite and not has_dropout:
            gradients = torch.is_grad_enabled()
            if all([_is_plain(value, gradients) for value in (*args, *kwargs.values())]):
                with torch._C._AutoDispatchBelowAutograd():
                    return recording.record(op, whole, args, kwargs) if captured[0] else whole(*args, **kwargs)
        return run_parts(implicit, *args, **kwargs)

    return kernel


def _is_plain(value: Any, gradients: bool) -> bool:
    """Whether an argument is no tensor subclass and requires no gradient."""
    if isinstance(value, Tensor):
        plain = type(value) is Tensor or type(value) is torch.nn.Parameter
        return plain and not (gradients and value.requires_grad)
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item, gradients) for item in value)
    return True


def _to_npu_result(aliases: Aliases, result: Tensor) -> Tensor:
    original = aliases.original(result)
    return _copy_to_npu(aliases, result) if original is None else original


def _copy_to_npu(aliases: Aliases, result: Tensor) -> Tensor:
    if result._is_zerotensor():  # zeros without storage
        return torch.zeros(result.size(), dtype=result.dtype, device=NPU)
    if result.layout is not torch.strided:
        raise NotImplementedError(f"{aliases.op}: {result.layout} tensors are not supported on the host NPU")
    return to_npu(result)


def _follow_resize(npu: Tensor, cpu: Tensor) -> None:
    """Resize an out= tensor as its CPU alias was, which got new memory, and copy; conjugate what the alias marks."""
    if cpu.is_conj() != npu.is_conj() or cpu.is_neg() != npu.is_neg():
        marked, cpu = cpu, cpu.resolve_conj().resolve_neg()
        if marked.size() == npu.size():
            as_cpu(npu).copy_(cpu)
            return
    if cpu.size() == npu.size() and cpu.stride() == npu.stride():
        return
    npu.resize_(extent(cpu))
    npu.as_strided_(cpu.size(), cpu.stride())
    as_cpu(npu).copy_(cpu)


def _generator_position(op: OpOverload) -> int | None:
    for position, argument in enumerate(op._schema.arguments):
        if argument.name == "generator":
            return None if argument.kwarg_only else position
    return None

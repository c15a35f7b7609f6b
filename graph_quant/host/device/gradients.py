"""Operators of torch_npu that have no gradient: `backward()` through one raises and names it.

PyTorch itself warns and leaves the gradients None. While a function is traced it is unknown whether `backward()` will
be called: the backward graph gets a node that raises when it is run.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_flatten, tree_unflatten

from ...dispatcher import overload, step
from .kernels import Kernel

_tracing = torch._C._len_torch_dispatch_stack


def missing_gradient_error(operator: str) -> NotImplementedError:
    """Return the error that backward() raises."""
    return NotImplementedError(f"{operator} has no gradient: backward() cannot go through it")


def _refuse(gradient: Tensor, size: Sequence[int], operator: str) -> Tensor:  # noqa: ARG001
    raise missing_gradient_error(operator)


def _inferred(gradient: Tensor, size: Sequence[int], operator: str) -> Tensor:  # noqa: ARG001
    return gradient.new_empty(size)


NO_GRADIENT = step(
    "no_gradient(Tensor gradient, SymInt[] size, str operator) -> Tensor",
    _refuse,
    _inferred,
    key="CompositeExplicitAutograd",
)


def raise_in_backward(name: str) -> Kernel:
    """Return the autograd kernel of an operator without gradient: backward() through its results raises."""
    resolved: OpOverload | None = None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        nonlocal resolved
        op = resolved = resolved or overload(name)
        if not op._schema.is_mutable and torch.is_grad_enabled():
            flat, form = tree_flatten((args, kwargs))
            if any(isinstance(value, Tensor) and value.requires_grad for value in flat):
                return _WithoutGradient.apply(op, form, *flat)  # type: ignore[no-untyped-call]
        with torch._C._AutoDispatchBelowAutograd():
            return op(*args, **kwargs)

    return kernel


def pass_gradient(name: str) -> Kernel:
    """Return the autograd kernel of an operator that copies its first tensor: the gradient passes unchanged."""
    resolved: OpOverload | None = None

    def kernel(source: Tensor, *args: Any, **kwargs: Any) -> Any:
        nonlocal resolved
        op = resolved = resolved or overload(name)
        if source.requires_grad and torch.is_grad_enabled():
            return _PassThrough.apply(op, kwargs, source, *args)  # type: ignore[no-untyped-call]
        with torch._C._AutoDispatchBelowAutograd():
            return op(source, *args, **kwargs)

    return kernel


def cast_gradient(name: str) -> Kernel:
    """Return the autograd kernel of a cast's backward, whose own gradient is a cast too.

    With gradients enabled, torch_npu's result requires a gradient whether or not the incoming gradient does.
    """
    resolved: OpOverload | None = None

    def kernel(gradient: Tensor, *args: Any) -> Any:
        nonlocal resolved
        op = resolved = resolved or overload(name)
        if torch.is_grad_enabled() and gradient.is_floating_point() and (gradient.requires_grad or not _tracing()):
            recorded = gradient if gradient.requires_grad else gradient.detach().requires_grad_()
            return _CastBackward.apply(op, recorded, *args)  # type: ignore[no-untyped-call]
        with torch._C._AutoDispatchBelowAutograd():
            return op(gradient, *args)

    return kernel


class _CastBackward(torch.autograd.Function):
    """Casts a gradient."""

    @staticmethod
    def forward(ctx: Any, op: OpOverload, gradient: Tensor, *args: Any) -> Any:
        ctx.dtype = gradient.dtype
        return op(gradient, *args)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, gradients[0].to(ctx.dtype), *(None for _ in ctx.needs_input_grad[2:])


class _PassThrough(torch.autograd.Function):
    """Calls an operator whose result has the values of its first tensor."""

    @staticmethod
    def forward(ctx: Any, op: OpOverload, kwargs: dict[str, Any], source: Tensor, *args: Any) -> Any:  # noqa: ARG004
        return op(source, *args, **kwargs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, None, *gradients, *(None for _ in ctx.needs_input_grad[3:])


class _WithoutGradient(torch.autograd.Function):
    """Calls an operator that has no gradient; backward() raises, or adds a node that raises while tracing."""

    @staticmethod
    def forward(ctx: Any, op: OpOverload, form: Any, *flat: Any) -> Any:
        ctx.op = op
        ctx.inputs = [(value.shape, value.dtype) if isinstance(value, Tensor) else None for value in flat]
        args, kwargs = tree_unflatten(list(flat), form)
        results = op(*args, **kwargs)
        return tuple(results) if isinstance(results, list) else results

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        if not _tracing():
            raise missing_gradient_error(ctx.op.name())
        gradient = next(gradient for gradient in gradients if gradient is not None)
        raising = [
            NO_GRADIENT(gradient, metadata[0], ctx.op.name()).to(metadata[1]) if metadata and needed else None
            for metadata, needed in zip(ctx.inputs, ctx.needs_input_grad[2:], strict=True)
        ]
        return None, None, *raising

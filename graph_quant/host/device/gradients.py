"""Operators of torch_npu that have no gradient: `backward()` through one raises and names it.

PyTorch's own answer is a warning, and gradients that are None. A trace does not know whether anybody will call
`backward()`: it gets a step in the backward graph that raises when it is run.
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
    """What is raised."""
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
    """Serve an operator on any device, with a mark on its results where autograd records."""
    made: OpOverload | None = None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        nonlocal made
        op = made = made or overload(name)
        if not op._schema.is_mutable and torch.is_grad_enabled():
            flat, form = tree_flatten((args, kwargs))
            if any(isinstance(value, Tensor) and value.requires_grad for value in flat):
                return _Marked.apply(op, form, *flat)  # type: ignore[no-untyped-call]
        with torch._C._AutoDispatchBelowAutograd():
            return op(*args, **kwargs)

    return kernel


def pass_gradient(name: str) -> Kernel:
    """Serve an operator that only moves its first tensor elsewhere: its gradient is that of the result."""
    made: OpOverload | None = None

    def kernel(source: Tensor, *args: Any, **kwargs: Any) -> Any:
        nonlocal made
        op = made = made or overload(name)
        if source.requires_grad and torch.is_grad_enabled():
            return _Passed.apply(op, kwargs, source, *args)  # type: ignore[no-untyped-call]
        with torch._C._AutoDispatchBelowAutograd():
            return op(source, *args, **kwargs)

    return kernel


def cast_gradient(name: str) -> Kernel:
    """Serve the gradient of a cast, whose own gradient is a cast too.

    Where autograd records, torch_npu makes the result a part of its graph whatever the gradient is.
    """
    made: OpOverload | None = None

    def kernel(gradient: Tensor, *args: Any) -> Any:
        nonlocal made
        op = made = made or overload(name)
        if torch.is_grad_enabled() and gradient.is_floating_point() and (gradient.requires_grad or not _tracing()):
            recorded = gradient if gradient.requires_grad else gradient.detach().requires_grad_()
            return _CastBack.apply(op, recorded, *args)  # type: ignore[no-untyped-call]
        with torch._C._AutoDispatchBelowAutograd():
            return op(gradient, *args)

    return kernel


class _CastBack(torch.autograd.Function):
    """A cast of a gradient."""

    @staticmethod
    def forward(ctx: Any, op: OpOverload, gradient: Tensor, *args: Any) -> Any:
        ctx.dtype = gradient.dtype
        return op(gradient, *args)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, gradients[0].to(ctx.dtype), *(None for _ in ctx.needs_input_grad[2:])


class _Passed(torch.autograd.Function):
    """A call whose result has the values of its first tensor."""

    @staticmethod
    def forward(ctx: Any, op: OpOverload, kwargs: dict[str, Any], source: Tensor, *args: Any) -> Any:  # noqa: ARG004
        return op(source, *args, **kwargs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, None, *gradients, *(None for _ in ctx.needs_input_grad[3:])


class _Marked(torch.autograd.Function):
    """A call whose results know that there is no way back."""

    @staticmethod
    def forward(ctx: Any, op: OpOverload, form: Any, *flat: Any) -> Any:
        ctx.op = op
        ctx.inputs = [(each.shape, each.dtype) if isinstance(each, Tensor) else None for each in flat]
        args, kwargs = tree_unflatten(list(flat), form)
        results = op(*args, **kwargs)
        return tuple(results) if isinstance(results, list) else results

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        if not _tracing():
            raise missing_gradient_error(ctx.op.name())
        gradient = next(each for each in gradients if each is not None)
        wanted = zip(ctx.inputs, ctx.needs_input_grad[2:], strict=True)
        steps = [
            NO_GRADIENT(gradient, each[0], ctx.op.name()).to(each[1]) if each is not None and needed else None
            for each, needed in wanted
        ]
        return None, None, *steps

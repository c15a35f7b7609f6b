"""Operators of torch_npu that have no gradient: `backward()` through one raises and names it.

PyTorch's own answer is a warning, and gradients that are None.
"""

from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_flatten, tree_unflatten

from .kernels import Kernel


def without_gradient(op: OpOverload) -> Kernel:
    """Serve an operator on any device, with a mark on its results where autograd records."""
    modes_active = torch._C._len_torch_dispatch_stack
    writes = op._schema.is_mutable

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if not writes and torch.is_grad_enabled() and not modes_active():
            flat, form = tree_flatten((args, kwargs))
            if any(isinstance(value, torch.Tensor) and value.requires_grad for value in flat):
                return _Marked.apply(op, form, *flat)  # type: ignore[no-untyped-call]
        with torch._C._AutoDispatchBelowAutograd():
            return op(*args, **kwargs)

    return kernel


class _Marked(torch.autograd.Function):
    """A call whose results know that there is no way back."""

    @staticmethod
    def forward(ctx: Any, op: OpOverload, form: Any, *flat: Any) -> Any:
        ctx.op = op
        args, kwargs = tree_unflatten(list(flat), form)
        results = op(*args, **kwargs)
        return tuple(results) if isinstance(results, list) else results

    @staticmethod
    def backward(ctx: Any, *_gradients: Any) -> Any:
        raise NotImplementedError(f"{ctx.op.name()} has no gradient: backward() cannot go through it")

"""Gradients of the few operators for which torch_npu replaces PyTorch's autograd."""

from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from .. import recording
from ..alias import as_cpu, to_npu
from .arguments import map_results
from .kernels import Kernel

_PLAIN = (torch.Tensor, torch.nn.Parameter)
# Dispatch keys for a call that a compiler traces: PyTorch's own autograd and the Python key below it. The device's key
# is left out, because it would select the device's autograd again.
_TRACED = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU) | torch._C.DispatchKeySet(
    torch._C.DispatchKey.Python
)


def differentiable(op: OpOverload) -> Kernel:
    """Run `op` on npu tensors with the gradient that it has on the CPU (first order)."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        flat, form = tree_flatten(args)
        tensors = [value for value in (*flat, *kwargs.values()) if isinstance(value, torch.Tensor)]
        wants_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        if op._schema.is_mutable or not wants_gradient:
            with torch._C._AutoDispatchBelowAutograd():
                return op(*args, **kwargs)
        if any([type(tensor) not in _PLAIN for tensor in tensors]):
            return op.redispatch(_TRACED, *args, **kwargs)
        recording.refuse(op)
        return _OnCpu.apply(op, kwargs, form, *flat)  # type: ignore[no-untyped-call]

    return kernel


class _OnCpu(torch.autograd.Function):
    """Records the operator on CPU aliases, and differentiates that recording."""

    @staticmethod
    def forward(ctx: Any, op: OpOverload, kwargs: dict[str, Any], form: TreeSpec, *args: Any) -> Any:
        ctx.owners = args  # the aliases below live in their memory
        ctx.inputs = [_leaf(value) if isinstance(value, torch.Tensor) else value for value in args]
        with torch.enable_grad():
            ctx.results = op(*tree_unflatten(ctx.inputs, form), **kwargs)
        return map_results(ctx.results, lambda result: to_npu(result.detach()))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        results = ctx.results if isinstance(ctx.results, tuple) else (ctx.results,)
        wanted = [value for value in ctx.inputs if isinstance(value, torch.Tensor) and value.requires_grad]
        pairs = [
            (result, as_cpu(gradient))
            for result, gradient in zip(results, gradients, strict=True)
            if gradient is not None and result.requires_grad
        ]
        cpu_gradients = torch.autograd.grad([p[0] for p in pairs], wanted, [p[1] for p in pairs], allow_unused=True)
        by_input = dict(zip(map(id, wanted), cpu_gradients, strict=True))
        moved = [by_input.get(id(value)) for value in ctx.inputs]
        return (None, None, None, *(None if gradient is None else to_npu(gradient) for gradient in moved))


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    cpu = as_cpu(tensor) if tensor.device.type == "npu" else tensor.detach()
    return cpu.requires_grad_(tensor.requires_grad)

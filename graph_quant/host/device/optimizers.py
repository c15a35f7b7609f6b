"""Fused SGD as torch_npu's kernel computes it: in float32, and rounded to the dtype of each tensor.

PyTorch's CPU kernel does not store the parameters of full vectors in half precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ...reference.half_precision import HALF_DTYPES
from ...refusals import Refusal
from ..alias import as_cpu
from .kernels import Kernel

_DTYPES = (torch.float32, *HALF_DTYPES)


def _sgd(_op: OpOverload, kernel: Kernel) -> Kernel:
    def wrapper(
        parameters: Sequence[Tensor],
        gradients: Sequence[Tensor],
        momenta: Sequence[Tensor],
        *,
        momentum: float,
        lr: float | Tensor,
        grad_scale: Tensor | None = None,
        found_inf: Tensor | None = None,
        **settings: Any,
    ) -> None:
        if not momentum > 0:
            raise Refusal(f"_fused_sgd_: momentum must be positive, got {momentum}; use foreach=True, not fused=True")
        if found_inf is not None and found_inf.item() == 1:
            return
        if any(tensor.dtype not in _DTYPES for tensor in parameters):
            kernel(parameters, gradients, momenta, momentum=momentum, lr=lr, grad_scale=grad_scale, **settings)
            return
        step = _make_step(momentum=momentum, lr=float(lr), **settings)
        inverse = None if grad_scale is None else 1 / as_cpu(grad_scale).float()
        for tensors in zip(*(map(as_cpu, group) for group in (parameters, gradients, momenta)), strict=True):
            step(*tensors, inverse)

    return wrapper


def _make_step(
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
) -> Any:
    """Return the function that updates one parameter and its momentum; every operation is rounded to float32."""
    keep = 1 - torch.tensor(dampening, dtype=torch.float32)

    def step(parameter: Tensor, gradient: Tensor, buffer: Tensor, inverse_scale: Tensor | None) -> None:
        wide, update = parameter.float(), gradient.float()
        if inverse_scale is not None:
            update = update * inverse_scale
            gradient.copy_(update)
        if maximize:
            update = -update
        if weight_decay:
            update = update + wide * weight_decay
        mean = update if is_first_step else buffer.float() * momentum + update * keep
        buffer.copy_(mean)
        parameter.copy_(wide - (update + mean * momentum if nesterov else mean) * lr)

    return step


WRAPPERS = {"aten::_fused_sgd_": _sgd, "aten::_fused_sgd_.tensor_lr": _sgd}

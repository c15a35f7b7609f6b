"""Python numbers where an operator's schema has a tensor: `torch.bitwise_and(2, x)`, `torch.special.zeta(2, x)`.

PyTorch wraps the number in a tensor and calls the overload for tensors, whose Python kernel gets the number again. On
the CPU only arithmetic operators accept a number there; for all others the overload with a Scalar argument is called.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from .kernels import Kernel

_NUMBERS = (int, float, bool, complex)


def accept_numbers(op: OpOverload, kernel: Kernel, kernel_of: Callable[[OpOverload], Kernel]) -> Kernel:
    """Return `kernel`, which passes calls with numbers to the Scalar overload where `op` refuses them on the CPU."""
    siblings = {position: sibling for position in (0, 1) if (sibling := _scalar_overload(op, position)) is not None}
    # In-place operators too: mul_.Scalar rounds the number to the dtype of the tensor, mul_.Tensor does not.
    if not siblings or torch._C._should_allow_numbers_as_tensors(op.overloadpacket.__name__):
        return kernel
    scalar_kernels: dict[int, Kernel] = {}

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        for position, sibling in siblings.items():
            if position < len(args) and isinstance(args[position], _NUMBERS):
                if position not in scalar_kernels:
                    scalar_kernels[position] = kernel_of(sibling)
                return scalar_kernels[position](*args, **kwargs)
        return kernel(*args, **kwargs)

    return wrapper


def _scalar_overload(op: OpOverload, position: int) -> OpOverload | None:
    """Return the overload that differs from `op` in having a number at `position`."""
    types = [str(argument.type) for argument in op._schema.arguments]
    if len(types) < 2 or types[:2] != ["Tensor", "Tensor"]:
        return None
    types[position] = "number"
    for name in op.overloadpacket.overloads():
        sibling: OpOverload = getattr(op.overloadpacket, name)
        same_kind = sibling._schema.is_mutable == op._schema.is_mutable
        if same_kind and [str(argument.type) for argument in sibling._schema.arguments] == types:
            return sibling
    return None

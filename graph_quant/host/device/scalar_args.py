"""Python numbers where an operator's schema has a tensor: `torch.bitwise_and(2, x)`, `torch.special.zeta(2, x)`.

PyTorch makes a tensor of the number and hands it on to the overload for tensors, whose kernel in Python sees the number
again. Called with it on the CPU, only arithmetic operators take it; for others the overload for numbers is asked.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from .kernels import Kernel

_NUMBERS = (int, float, bool, complex)


def with_numbers(op: OpOverload, kernel: Kernel, kernel_of: Callable[[OpOverload], Kernel]) -> Kernel:
    """Return `kernel`, except for calls with numbers that `op` would not take for tensors on the CPU."""
    siblings = {position: sibling for position in (0, 1) if (sibling := _for_number_at(op, position)) is not None}
    if not siblings or _takes_numbers(op):
        return kernel
    made: dict[int, Kernel] = {}

    def serve(*args: Any, **kwargs: Any) -> Any:
        for position, sibling in siblings.items():
            if position < len(args) and isinstance(args[position], _NUMBERS):
                if position not in made:
                    made[position] = kernel_of(sibling)
                return made[position](*args, **kwargs)
        return kernel(*args, **kwargs)

    return serve


def _for_number_at(op: OpOverload, position: int) -> OpOverload | None:
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


def _takes_numbers(op: OpOverload) -> bool:
    try:
        op(*(2, torch.ones(1, dtype=torch.int64)), **({"out": torch.empty(0)} if op._schema.is_mutable else {}))
    except Exception:
        return False
    return True

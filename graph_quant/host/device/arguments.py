"""Converts the arguments of a call on npu tensors into those of the same call on the CPU."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ..alias import as_cpu, check_index, kept_alias, same_memory
from ..devices import current

_CPU = torch.device("cpu")
_default_dtype = torch.get_default_dtype


class Aliases:
    """The npu tensors of one call and their CPU aliases."""

    __slots__ = ("cpu_at", "op", "pairs")

    def __init__(self, op: OpOverload, cpu_at: int | None = None) -> None:
        self.op = op
        self.cpu_at = cpu_at
        self.pairs: list[tuple[Tensor, Tensor]] = []

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the operator on the CPU."""
        of = self.of
        aliases = [of(value) if i != self.cpu_at else self._or_from_cpu(value) for i, value in enumerate(args)]
        return self.op(*aliases, **{name: of(value) for name, value in kwargs.items()})

    def _or_from_cpu(self, values: Any) -> Any:
        """Return the alias of an argument that may be a CPU tensor."""
        if isinstance(values, (list, tuple)):
            return [self._or_from_cpu(value) for value in values]
        return values if isinstance(values, Tensor) and values.is_cpu else self.of(values)

    def of(self, value: Any) -> Any:
        """Return the CPU alias of `value`."""
        if isinstance(value, Tensor):
            if value.is_cpu:
                if value.dim() and not any(value is cpu for _, cpu in self.pairs):
                    raise mixed_devices_error(self.op)
                return value
            cpu = as_cpu(value)
            self.pairs.append((value, cpu))
            return cpu
        if isinstance(value, (list, tuple)):
            return [self.of(item) for item in value]
        if isinstance(value, torch.device):
            return _cpu_for(value)
        return value

    def original(self, result: Tensor) -> Tensor | None:
        """Return the npu tensor that a CPU result aliases, or a view of it; None for new memory."""
        for npu, cpu in self.pairs:
            if result is cpu:
                return npu
        if result.numel() == 0 or result._is_zerotensor():
            return None
        memory = result.untyped_storage().data_ptr()
        for npu, cpu in self.pairs:
            if cpu.untyped_storage().data_ptr() == memory:
                return same_memory(npu, result)
        return None


def _cpu_for(device: torch.device) -> torch.device:
    if device.type != "npu":
        return device
    check_index(device)
    return _CPU


# The CPU arguments of a call, and its signature: all that decides the shape, strides and dtype of its result.
SignedCall = tuple[list[Any], tuple[Any, ...]]


def signed_call(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> SignedCall | None:
    """Prepare a call in one pass (this is the hot path); None if an argument is of an uncommon type."""
    parts: list[Any] = [_default_dtype()]
    cpu_args: list[Any] = []
    scalar_tensor = False
    for value in args:
        if isinstance(value, Tensor):
            form = (value.size(), value.stride(), value.dtype)
            if value.is_cpu:
                if form[0]:
                    raise mixed_devices_error(op)
                scalar_tensor = True
                cpu_args.append(value)
            else:
                cpu_args.append(kept_alias(value, form))
            parts.append(form)
        elif isinstance(value, (int, float, bool)):
            cpu_args.append(value)
            parts += (type(value), value)
        elif isinstance(value, (list, tuple)) and all([type(item) is int for item in value]):
            cpu_args.append(value)
            parts.append(tuple(value))
        elif isinstance(value, (list, tuple)) and all([isinstance(item, Tensor) for item in value]):
            if any([item.is_cpu for item in value]):
                return None
            forms = [(item.size(), item.stride(), item.dtype) for item in value]
            cpu_args.append(list(map(kept_alias, value, forms)))
            parts.append(tuple(forms))
        elif value is None or isinstance(value, torch.dtype):
            cpu_args.append(value)
            parts.append(value)
        else:
            return None
    for name, value in kwargs.items():
        if not isinstance(value, (int, float, bool, str, torch.dtype)) and value is not None:
            return None
        parts += (name, type(value), value)
    if scalar_tensor:
        # A Python number arrives as a tensor that promotes differently; PyTorch alone can distinguish the two.
        tensors = [value for value in args if isinstance(value, Tensor)]
        if len(tensors) != 2:
            return None
        parts.append(torch.result_type(*tensors))
    return cpu_args, tuple(parts)


def mixed_devices_error(op: OpOverload | str) -> RuntimeError:
    """Return the error that PyTorch raises for tensors on two devices."""
    return RuntimeError(
        f"{op}: Expected all tensors to be on the same device, but found at least two devices, npu:{current()} and cpu!"
    )


def as_meta(value: Any) -> Any:
    """Return a meta tensor with the shape, strides and dtype of an argument."""
    if isinstance(value, Tensor):
        if value.is_cpu:  # a scalar tensor, which does not affect the shape
            return value
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, (list, tuple)):
        return [as_meta(item) for item in value]
    return value


def map_results(results: Any, move: Callable[[Tensor], Tensor]) -> Any:
    """Apply `move` to each tensor that an operator returned."""
    if isinstance(results, Tensor):
        return move(results)
    if isinstance(results, (list, tuple)):
        return tuple([map_results(item, move) for item in results])
    return results

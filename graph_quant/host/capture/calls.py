"""A call kept for later: its operator and CPU tensors over the memory of its npu tensors."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ..alias import as_cpu
from ..device import cpu_generator, default_generator
from .inference import Fresh
from .tape import Step

_CPU = torch.device("cpu")
_INTEGER = torch.empty(1, dtype=torch.int8)


class Call:
    """One call that will be made on the CPU, again and again."""

    def __init__(self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.op = op
        self.args = [_kept(value) for value in args]
        self.kwargs = {name: _kept(value) for name, value in kwargs.items()}
        self._settle_numbers()

    def _settle_numbers(self) -> None:
        """Make numbers that stand for a tensor into tensors once, where they then promote as numbers do."""
        shaped = [value.dtype for value in self.args if isinstance(value, Tensor) and value.dim()]
        for position, (argument, value) in enumerate(zip(self.op._schema.arguments, self.args, strict=False)):
            if isinstance(argument.type, torch.TensorType):
                if type(value) is float and any(dtype.is_floating_point for dtype in shaped):
                    # Half precision is computed in float32, where a kernel takes the number in full.
                    exact = torch.float32 if set(shaped) == {torch.float32} else torch.float64
                    self.args[position] = torch.tensor(value, dtype=exact)
                elif type(value) is int and any(dtype is not torch.bool for dtype in shaped):
                    self.args[position] = torch.tensor(value)

    def step(self, fresh: list[Fresh]) -> Step:
        """Return the function that makes the call and writes its results where the capture put them."""
        from ..device import find_float32_product, find_matching_out

        name = self.op.name()
        targets = [(result.path, as_cpu(result.tensor)) for result in fresh]
        if draws(self.op):
            return _into(self._drawing(), targets)
        if (product := find_float32_product(name, self.args)) is not None:
            return _into(self._prepared(product), targets)
        # Complex results an operator may mark as to be conjugated.
        is_plain = len(targets) == 1 and not targets[0][0] and not targets[0][1].is_complex()
        if is_plain and (out := find_matching_out(self.op)) is not None:
            into = next(argument.name for argument in out._schema.arguments if argument.is_out)
            return partial(out._op, *self.args, **self.kwargs, **{into: targets[0][1]})
        return _into(self._prepared(self.op._op), targets)

    def _prepared(self, compute: Callable[..., Any]) -> Callable[[], Any]:
        return partial(compute, *self.args, **self.kwargs)

    def _drawing(self) -> Callable[[], Any]:
        """Draw from the generator of the device that is captured, as it stands when the call is made."""
        names = [argument.name for argument in self.op._schema.arguments]
        given = {**dict(zip(names, self.args, strict=False)), **self.kwargs}
        generator = given.pop("generator", None) or default_generator()
        keyword = {argument.name for argument in self.op._schema.arguments if argument.kwarg_only}
        position = names.index("generator")
        compute = self.op._op

        def draw() -> Any:
            drawn = cpu_generator(generator)
            if "generator" in keyword:
                return compute(*self.args, **{**self.kwargs, "generator": drawn})
            return compute(*self.args[:position], drawn, *self.args[position + 1 :], **self.kwargs)

        return draw


def draws(op: OpOverload) -> bool:
    """Tell whether an operator draws random numbers."""
    return any(argument.name == "generator" for argument in op._schema.arguments)


def _into(compute: Callable[[], Any], targets: list[tuple[tuple[int, ...], Tensor]]) -> Step:
    """Return `compute`, followed by copies of its results into the tensors of the capture."""
    if not targets:
        return compute
    if len(targets) == 1 and not targets[0][0]:
        ((_, target),) = targets

        def write_one() -> None:
            target.copy_(compute())

        return write_one

    def write() -> None:
        results = compute()
        for path, target in targets:
            result = results
            for index in path:
                result = result[index]
            target.copy_(result)

    return write


def _kept(value: Any) -> Any:
    """Return what stands for an argument in every replay."""
    if isinstance(value, Tensor):
        if value.is_cpu:
            return value if _is_number(value) else value.clone()
        return value if value.is_meta else as_cpu(value)
    if isinstance(value, (list, tuple)):
        return [_kept(item) for item in value]
    if isinstance(value, torch.device) and value.type == "npu":
        return _CPU
    return value


def _is_number(value: Tensor) -> bool:
    """Tell whether a tensor is a Python number: those promote differently, and nobody can change them."""
    return value.dtype in (torch.float64, torch.complex128) and torch.result_type(_INTEGER, value) != value.dtype

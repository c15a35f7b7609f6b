"""A recorded call: an operator and CPU aliases of its npu tensors."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from graph_quant.meta.execution import prepare
from graph_quant.meta.operator import RECORDS, Operator
from torch import Tensor
from torch._ops import OpOverload

from ..alias import as_cpu
from ..device import cpu_generator, default_generator
from .inference import NewResult
from .tape import Step

_CPU = torch.device("cpu")
_INTEGER = torch.empty(1, dtype=torch.int8)


class Call:
    """One call that each replay makes on the CPU."""

    def __init__(self, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.op = op
        self.args = [_for_replay(value) for value in args]
        self.kwargs = {name: _for_replay(value) for name, value in kwargs.items()}
        self._wrap_numbers()

    def _wrap_numbers(self) -> None:
        """Convert Python numbers at tensor arguments into tensors once, where they promote as numbers do."""
        shaped = [value.dtype for value in self.args if isinstance(value, Tensor) and value.dim()]
        for position, (argument, value) in enumerate(zip(self.op._schema.arguments, self.args, strict=False)):
            if isinstance(argument.type, torch.TensorType):
                if type(value) is float and any(dtype.is_floating_point for dtype in shaped):
                    # Half precision is computed in float32, where a kernel uses the number in full precision.
                    exact = torch.float32 if set(shaped) == {torch.float32} else torch.float64
                    self.args[position] = torch.tensor(value, dtype=exact)
                elif type(value) is int and any(dtype is not torch.bool for dtype in shaped):
                    self.args[position] = torch.tensor(value)

    def step(self, new_results: list[NewResult]) -> Step:
        """Return the function that makes the call and writes its results into the tensors of the capture."""
        from ..device import find_matching_out, find_product, wrapped_kernel

        name = self.op.name()
        targets = [(result.path, as_cpu(result.tensor)) for result in new_results]
        if is_random(self.op):
            return _into(self._random_call(), targets)
        if (product := find_product(name.removesuffix(".out"), self.args)) is not None:
            return self._product(product, targets)
        if (wrapped := wrapped_kernel(self.op, self.args, self.kwargs)) is not None:
            return _into(self._prepared(wrapped), targets)
        # An operator may set the conjugate bit of a complex result.
        is_plain = len(targets) == 1 and not targets[0][0] and not targets[0][1].is_complex()
        if is_plain and (out := find_matching_out(self.op)) is not None:
            out_name = next(argument.name for argument in out._schema.arguments if argument.is_out)
            return partial(out._op, *self.args, **self.kwargs, **{out_name: targets[0][1]})
        record = RECORDS.get(name)
        if record is not None and record.reference is not None:
            return _into(self._reference(record), targets)
        return _into(self._prepared(self.op._op), targets)

    def _reference(self, record: Operator) -> Callable[[], Any]:
        """Return the reference, whose rules are checked now and not in each replay."""
        compute = prepare(record, record.bind(self.args, self.kwargs))
        return lambda: record.as_returned(compute())

    def _product(self, compute: Callable[..., Any], targets: list[tuple[tuple[int, ...], Tensor]]) -> Step:
        """Return the product of matrices, which is written into its target; one with ``out=`` may overlap operands."""
        if targets:
            return partial(compute, *self.args, **self.kwargs, out=targets[0][1])
        kwargs = dict(self.kwargs)
        out = kwargs.pop("out")

        def write() -> None:
            out.copy_(compute(*self.args, **kwargs))

        return write

    def _prepared(self, compute: Callable[..., Any]) -> Callable[[], Any]:
        return partial(compute, *self.args, **self.kwargs)

    def _random_call(self) -> Callable[[], Any]:
        """Return the call with the generator of the captured device, in its state at the time of the call."""
        names = [argument.name for argument in self.op._schema.arguments]
        arguments = {**dict(zip(names, self.args, strict=False)), **self.kwargs}
        generator = arguments.pop("generator", None) or default_generator()
        keyword = {argument.name for argument in self.op._schema.arguments if argument.kwarg_only}
        position = names.index("generator")
        compute = self.op._op

        def sample() -> Any:
            current = cpu_generator(generator)
            if "generator" in keyword:
                return compute(*self.args, **{**self.kwargs, "generator": current})
            return compute(*self.args[:position], current, *self.args[position + 1 :], **self.kwargs)

        return sample


def is_random(op: OpOverload) -> bool:
    """Whether an operator takes a generator."""
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


def _for_replay(value: Any) -> Any:
    """Return the argument that every replay uses: the CPU alias of an npu tensor, a copy of a CPU tensor."""
    if isinstance(value, Tensor):
        if value.is_cpu:
            return value if _is_number(value) else value.clone()
        return value if value.is_meta else as_cpu(value)
    if isinstance(value, (list, tuple)):
        return [_for_replay(item) for item in value]
    if isinstance(value, torch.device) and value.type == "npu":
        return _CPU
    return value


def _is_number(value: Tensor) -> bool:
    """Whether a tensor is a wrapped Python number: those promote differently, and cannot be modified."""
    return value.dtype in (torch.float64, torch.complex128) and torch.result_type(_INTEGER, value) != value.dtype

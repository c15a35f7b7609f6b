"""Launches of Triton kernels: on the memory of their tensors, at once or recorded in a captured graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import Any

import numpy as np
import torch
import triton.language as tl
from torch import Tensor
from triton.runtime import interpreter, jit

from .. import recording

# The interpreter has one state for all kernels.
_one_at_a_time = RLock()


@dataclass(frozen=True)
class Pointer:
    """The address of a tensor, which a recorded launch keeps instead of the tensor."""

    address: int
    dtype: torch.dtype

    def as_argument(self) -> Any:
        """Return the pointer as a kernel's argument."""
        name = jit.type_canonicalisation_dict[str(self.dtype).removeprefix("torch.")]
        kind = tl.str_to_ty(f"*{name}", None)
        return tl.tensor(interpreter.TensorHandle(np.array([self.address], np.uint64), kind), kind)


def install() -> None:
    """Launch kernels by this module."""
    interpreter.InterpretedFunction.run = run


def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
    """Launch a kernel; options of compilers are ignored."""
    if warmup:
        return
    function = self.rewrite()
    name = self.fn.__name__
    accepted = {key: value for key, value in kwargs.items() if key in self.arg_names}
    arguments = inspect.getcallargs(function, *args, **accepted)
    for hook in self.pre_run_hooks:
        hook(*args, **accepted)
    tensors: list[Tensor] = []
    passed = {key: _as_passed(name, key, value, tensors) for key, value in arguments.items()}
    sizes = _sizes(grid(arguments) if callable(grid) else grid)
    constants = frozenset(interpreter.GridExecutor(function, self.arg_names, sizes).constexprs)
    task = partial(_execute, name, function, passed, constants, sizes)
    if recording.recording[0] and recording.record_task(f"triton::{name}", task, tensors, tensors):
        return
    task()


def _sizes(grid: Sequence[Any]) -> tuple[int, int, int]:
    sizes = [int(size) for size in grid]
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"a grid must have 1 to 3 dimensions, got {len(sizes)}")
    first, second, third = [*sizes, 1, 1][:3]
    return first, second, third


def _as_passed(kernel: str, name: str, value: Any, tensors: list[Tensor]) -> Any:
    """Return an argument with the addresses of its tensors, which are added to ``tensors``."""
    if isinstance(value, tuple):
        parts = [_as_passed(kernel, name, part, tensors) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    base = value.base if isinstance(value, jit.TensorWrapper) else value
    if not isinstance(base, Tensor):
        if hasattr(value, "data_ptr") or isinstance(value, interpreter.TensorDescriptor):
            raise NotImplementedError(f"triton kernel {kernel}: {name} must be a tensor, got {type(value).__name__}")
        return value
    if base.device.type != "npu" and not base.is_pinned():
        raise ValueError(f"triton kernel {kernel}: {name} must be on an NPU, got a tensor on {base.device}")
    tensors.append(base)
    return Pointer(base.data_ptr(), value.dtype)


def _argument(value: Any) -> Any:
    if isinstance(value, Pointer):
        return value.as_argument()
    if isinstance(value, tuple):
        parts = [_argument(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tl.tuple(parts)
    kind = _kind_of_number(value)
    if kind is None:
        return value
    return tl.tensor(interpreter.TensorHandle(np.array([value], interpreter._get_np_dtype(kind)), kind), kind)


def _kind_of_number(value: Any) -> Any:
    """Return the dtype in which a kernel gets a number, or None."""
    if isinstance(value, bool):
        return tl.int1
    if isinstance(value, float):
        return tl.float32
    if not isinstance(value, int):
        return None
    if -(2**31) <= value < 2**31:
        return tl.int32
    return tl.int64 if value < 2**63 else tl.uint64


def _execute(
    name: str,
    function: Callable[..., Any],
    passed: Mapping[str, Any],
    constants: frozenset[str],
    grid: tuple[int, int, int],
) -> None:
    builder = interpreter.interpreter_builder
    with _one_at_a_time, np.errstate(all="ignore"):
        interpreter._patch_lang(function)
        arguments = {key: value if key in constants else _argument(value) for key, value in passed.items()}
        builder.set_grid_dim(*grid)
        for index in np.ndindex(*grid):
            builder.set_grid_idx(*index)
            try:
                function(**arguments)
            except Exception as error:
                raise RuntimeError(f"triton kernel {name}, program {index}: {error}") from error

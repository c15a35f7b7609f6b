"""Triton's interpreter with the arithmetic of a device: any block size, bfloat16, and conversions that round.

Upstream keeps bfloat16 as integers, on which it computes as on integers, and cuts off digits where a device rounds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from triton import _utils
from triton.language import core
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_get_np_dtype = interpreter._get_np_dtype
_patch_lang = interpreter._patch_lang
_create_atomic_rmw = interpreter.InterpreterBuilder.create_atomic_rmw
_FLOATS = ("fp16", "bf16", "fp32", "fp64")


def extend() -> None:
    """Replace the parts of the interpreter that differ."""
    builder: Any = interpreter.InterpreterBuilder
    # Checks of overflow are for debugging: they compute each integer operation in int64 too, and discard the result.
    options = interpreter.interpreter_builder.options
    interpreter.interpreter_builder.options = replace(options, sanitize_overflow=False)
    interpreter._get_np_dtype = np_dtype
    interpreter._patch_lang = patch_once
    builder.create_masked_load = load
    builder.create_masked_store = store
    builder.create_atomic_rmw = modify_atomically
    builder.cast_impl = cast
    builder.create_fp_to_fp = convert
    builder.create_dot = dot
    builder.create_erf = erf
    TritonSemantic.arange = arange
    for module in (_utils, core):
        vars(module)["validate_block_shape"] = count_elements


def np_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the NumPy dtype that holds values of a Triton dtype."""
    scalar = dtype.element_ty if isinstance(dtype, tl.block_type) else dtype
    if isinstance(scalar, tl.pointer_type):
        return np.dtype(np.uint64)
    if scalar.is_fp8():
        raise NotImplementedError(f"{scalar} is for Ascend 950, and has no arithmetic on the host NPU")
    return BFLOAT16 if scalar == tl.bfloat16 else _get_np_dtype(scalar)


def count_elements(shape: list[int]) -> int:
    """Return the elements of a block; unlike on a GPU, its sizes need not be powers of two."""
    count = 1
    for position, size in enumerate(shape):
        if not isinstance(size, int):
            raise TypeError(f"Shape element {position} must have type `constexpr[int]`, got `constexpr[{type(size)}]")
        if size < 1:
            raise ValueError(f"Shape element {position} must be positive, got {size}")
        count *= size
    if count > _utils.TRITON_MAX_TENSOR_NUMEL:
        most = _utils.TRITON_MAX_TENSOR_NUMEL
        raise ValueError(f"numel ({count}) exceeds triton maximum tensor numel ({most})")
    return count


def arange(self: Any, start: int, end: int, *, ret_ty: Any = None) -> Any:
    """Return consecutive integers, any number of them."""
    if not isinstance(start, int) or not isinstance(end, int):
        raise ValueError("arange's arguments must be of type tl.constexpr")
    if start >> 32 or end >> 32:
        raise ValueError("arange must fit in int32")
    if end <= start:
        raise ValueError("arange's end argument must be greater than the start argument")
    result = tl.block_type(tl.int32, [end - start]) if ret_ty is None else ret_ty
    return self.make_tensor(self.builder.create_make_range(result.to_ir(self.builder), start, end), result)


def load(self: Any, ptrs: Any, mask: Any, other: Any, cache_policy: Any, is_volatile: Any) -> Any:  # noqa: ARG001
    """Read memory; the native loads know no bfloat16, and take it as integers."""
    element = ptrs.get_element_ty()
    dtype = np_dtype(element)
    missing = np.zeros_like(ptrs.data, dtype=dtype) if other is None else other.data
    stored = _stored(dtype)
    values = interpreter._interpreter.load(ptrs.data, mask.data, _as_stored(missing), stored)
    return interpreter.TensorHandle(values.view(dtype), element)


def store(self: Any, ptrs: Any, value: Any, mask: Any, cache_policy: Any) -> Any:  # noqa: ARG001
    """Write memory."""
    return interpreter._interpreter.store(ptrs.data, _as_stored(value.data), mask.data)


def modify_atomically(self: Any, operation: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
    """Read, modify and write memory."""
    if val.data.dtype == BFLOAT16:
        raise NotImplementedError("atomic operations on bfloat16 are not supported on the host NPU")
    return _create_atomic_rmw(self, operation, ptr, val, mask, sem, scope)


def _stored(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.uint16) if dtype == BFLOAT16 else dtype


def _as_stored(data: Any) -> Any:
    return np.ascontiguousarray(data).view(np.uint16) if data.dtype == BFLOAT16 else data


def cast(self: Any, source: Any, dtype: Any) -> Any:  # noqa: ARG001
    """Convert values: floats round to nearest, ties to even; integers are cut off."""
    return interpreter.TensorHandle(source.data.astype(np_dtype(dtype)), dtype.scalar)


def convert(self: Any, source: Any, dtype: Any, rounding_mode: Any) -> Any:
    """Convert floats with a rounding mode."""
    names = (source.dtype.scalar.name, dtype.scalar.name)
    if not set(names) <= set(_FLOATS):
        raise NotImplementedError(f"a conversion from {names[0]} to {names[1]} is not supported on the host NPU")
    if rounding_mode in (None, interpreter._ir.ROUNDING_MODE.RTNE):
        return cast(self, source, dtype)
    wide = interpreter.TensorHandle(source.data.astype(np.float32), tl.float32)
    if dtype.scalar != tl.bfloat16 or source.dtype.scalar == tl.float64:
        raise NotImplementedError(f"rounding towards zero to {names[1]} is not supported on the host NPU")
    bits = (wide.data.view(np.uint32) >> 16).astype(np.uint16).view(BFLOAT16)
    values = np.where(np.isnan(wide.data), wide.data.astype(BFLOAT16), bits)
    return interpreter.TensorHandle(values, dtype.scalar)


def dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:  # noqa: ARG001
    """Multiply matrices; halves are multiplied and summed in float32."""
    left, right = (_widened(operand.data) for operand in (a, b))
    product = np.matmul(left, right, dtype=d.data.dtype)
    return interpreter.TensorHandle(product + d.data, d.dtype.scalar)


def _widened(data: Any) -> Any:
    return data.astype(np.float32) if data.dtype in (BFLOAT16, np.dtype(np.float16)) else data


def erf(self: Any, arg: Any) -> Any:  # noqa: ARG001
    """Return the error function in the dtype of its argument."""
    values = interpreter.np_erf_fp64(arg.data.astype(np.float64))
    return interpreter.TensorHandle(values.astype(arg.data.dtype), arg.dtype.scalar)


class _Nothing:
    """Stands for the changes of ``patch_once``, which stay."""

    def restore(self) -> None:
        """Leave the changes."""


_patched: list[Any] = []


def patch_once(fn: Any) -> _Nothing:  # noqa: ARG001
    """Let the functions of ``triton.language`` compute, once: upstream does it again for every call."""
    if not _patched:
        both = _SeesLanguage()
        _patched.append(_patch_lang(both))
        for module in (tl, core):
            module.cast = _with_overflow_mode(module.cast)
            module.tensor.cast = _with_overflow_mode(module.tensor.cast)
    return _Nothing()


class _SeesLanguage:
    """A function in whose globals all of the language is visible."""

    __globals__ = {"tl": tl, "core": core}  # noqa: RUF012


def _with_overflow_mode(function: Any) -> Any:
    def cast_with_mode(
        input: Any,  # noqa: A002
        dtype: Any,
        *args: Any,
        overflow_mode: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Convert; triton-ascend's ``overflow_mode`` is "trunc" or "saturate"."""
        mode, target = getattr(overflow_mode, "value", overflow_mode), getattr(dtype, "value", dtype)
        if mode not in (None, "trunc", "saturate"):
            raise ValueError(f"cast: overflow_mode must be trunc or saturate, got {mode!r}")
        if mode == "saturate" and target.scalar.is_int():
            range_ = np.iinfo(np_dtype(target.scalar))
            data = np.clip(input.handle.data.astype(np.float64), range_.min, range_.max)
            handle = interpreter.TensorHandle(data.astype(np_dtype(target.scalar)), target.scalar)
            return tl.tensor(handle, tl.block_type(target.scalar, input.shape) if input.shape else target.scalar)
        return function(input, dtype, *args, **kwargs)

    return cast_with_mode

"""``triton.language.extra.cann.extension``: parts of blocks, as triton-ascend has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton.language as tl
from triton.runtime.interpreter import TensorHandle


def extract_slice(
    ful: Any, offsets: Sequence[Any], sizes: Sequence[Any], strides: Sequence[Any], **_: object
) -> tl.tensor:
    """Return a part of a block."""
    return _tensor(ful.handle.data[_slices("extract_slice", ful, offsets, sizes, strides)].copy(), ful.dtype)


def insert_slice(
    ful: Any, sub: Any, offsets: Sequence[Any], sizes: Sequence[Any], strides: Sequence[Any], **_: object
) -> tl.tensor:
    """Return a block with a part of it replaced by ``sub``."""
    result = ful.handle.data.copy()
    part = result[_slices("insert_slice", ful, offsets, sizes, strides)]
    if part.shape != sub.handle.data.shape:
        raise ValueError(f"insert_slice: sub must have the sizes {list(part.shape)}, got {list(sub.shape)}")
    part[...] = sub.handle.data
    return _tensor(result, ful.dtype)


def get_element(src: Any, indice: Sequence[Any], **_: object) -> tl.tensor:
    """Return one element of a block as a scalar."""
    data = src.handle.data
    position = tuple(map(_number, indice))
    if len(position) != data.ndim or any(not 0 <= i < size for i, size in zip(position, data.shape, strict=False)):
        raise ValueError(f"get_element: indice must lie within {list(data.shape)}, got {list(position)}")
    return tl.tensor(TensorHandle(data[position].reshape(1), src.dtype.scalar), src.dtype.scalar)


def _slices(
    name: str, ful: Any, offsets: Sequence[Any], sizes: Sequence[Any], strides: Sequence[Any]
) -> tuple[slice, ...]:
    shape = ful.handle.data.shape
    numbers = [list(map(_number, values)) for values in (offsets, sizes, strides)]
    if any(len(values) != len(shape) for values in numbers):
        raise ValueError(f"{name}: offsets, sizes and strides must have {len(shape)} elements, got {numbers}")
    for length, offset, size, stride in zip(shape, *numbers, strict=True):
        if offset < 0 or size < 1 or stride < 1 or offset + (size - 1) * stride >= length:
            raise ValueError(
                f"{name}: offsets, sizes and strides must lie within {list(shape)}, got {', '.join(map(str, numbers))}"
            )
    return tuple(
        slice(offset, offset + (size - 1) * stride + 1, stride) for offset, size, stride in zip(*numbers, strict=True)
    )


def _number(value: Any) -> int:
    value = getattr(value, "value", value)  # of a constexpr
    return int(value)


def _tensor(data: Any, dtype: Any) -> tl.tensor:
    return tl.tensor(TensorHandle(data, dtype.scalar), tl.block_type(dtype.scalar, list(data.shape)))

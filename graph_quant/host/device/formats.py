"""Formats on the host NPU: a tensor answers the format it was cast to, and its values lie as before.

A format is a layout that kernels of a device prefer. Kernels of the host read every tensor row by row, so
that only the name of the format is kept: torch_npu's own, in the tensor's storage.
"""

from __future__ import annotations

from typing import Any

import torch
import torch_npu
from torch import Tensor

from .gradients import pass_gradient

# Operators whose weights have two or three dimensions, so that a fourth or fifth is a block of FRACTAL_NZ; and those
# among them that take blocks for granted whatever the format.
_IN_BLOCKS, _ALWAYS_IN_BLOCKS = "npu_grouped_matmul", "npu_grouped_matmul_swiglu_quant"

_NAMES = ("_npu_format_cast", "_npu_format_cast.aclnn", "_npu_format_cast.input_dtype")


def takes_blocks(title: str) -> bool:
    """Whether callers may give the operator of that name weights by the blocks of their format."""
    return title.startswith(_IN_BLOCKS)


def without_blocks(title: str, value: Any) -> Any:
    """A weight seen by the blocks of FRACTAL_NZ, (…, N/n, K/k, k, n), as (…, K, N).

    Of a tensor that was cast such a view shows, on a device, how it lies there; here it lies row by row under it.
    Another tensor holds the blocks themselves, if the operator ``title`` takes them so.
    """
    if isinstance(value, (list, tuple)):
        return [without_blocks(title, item) for item in value]
    if not isinstance(value, Tensor) or value.dim() < 4 or value.is_cpu:
        return value
    *leading, across, down, rows, columns = value.shape
    shape = (*leading, down * rows, across * columns)
    if torch_npu.get_npu_format(value) == torch_npu.Format.FRACTAL_NZ:
        return value.reshape(shape)
    return value.movedim(-4, -2).reshape(shape) if title.startswith(_ALWAYS_IN_BLOCKS) else value


def cast(source: Tensor, acl_format: int, *_dtypes: Any, **_named_dtypes: Any) -> Tensor:
    """A copy of ``source`` in ``acl_format``."""
    result: Tensor = torch_npu.empty_with_format(
        source.shape, dtype=source.dtype, device=source.device, acl_format=acl_format
    )
    return result.copy_(source)


def cast_if_other(source: Tensor, acl_format: int, *_dtypes: Any, **_named_dtypes: Any) -> Tensor:
    """``source`` itself if it has that format, else a copy in it."""
    return source if torch_npu.get_npu_format(source).value == acl_format else cast(source, acl_format)


def cast_like(source: Tensor, example: Tensor, **_named_dtypes: Any) -> Tensor:
    """``source`` in the format of ``example``."""
    return cast_if_other(source, torch_npu.get_npu_format(example).value)


def cast_in_place(target: Tensor, acl_format: int, **_named_dtypes: Any) -> Tensor:
    """Gives ``target`` memory in ``acl_format``, with the values it had, unless it has such."""
    found = cast_if_other(target, acl_format)
    if found is not target:
        target.data = found
    return target


def cast_in_place_like(target: Tensor, example: Tensor, **_named_dtypes: Any) -> Tensor:
    """Gives ``target`` memory in the format of ``example``, with the values it had."""
    return cast_in_place(target, torch_npu.get_npu_format(example).value)


def register(library: torch.library.Library) -> None:
    """Serves the casts on tensors of the host NPU."""
    for name in _NAMES:
        library.impl(name, cast, "PrivateUse1", allow_override=True)
    library.impl("npu_format_cast", cast_if_other, "PrivateUse1", allow_override=True)
    library.impl("npu_format_cast.Tensor", cast_like, "PrivateUse1", allow_override=True)
    for name in ("npu_format_cast", "npu_format_cast.Tensor"):
        library.impl(name, pass_gradient(f"npu::{name}"), "AutogradPrivateUse1")
    library.impl("npu_format_cast_.acl_format", cast_in_place, "PrivateUse1", allow_override=True)
    library.impl("npu_format_cast_", cast_in_place_like, "PrivateUse1", allow_override=True)

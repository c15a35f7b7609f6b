"""Storage formats on the host NPU: a tensor reports the format it was cast to, and its memory stays as it was.

A format is a memory layout that kernels of a device prefer. Kernels of the host read every tensor in row-major order,
so that only the name of the format is kept, by torch_npu in the tensor's storage.
"""

from __future__ import annotations

from typing import Any

import torch
import torch_npu
from torch import Tensor

from ...releases.alternatives import implement
from .gradients import pass_gradient

# Operators whose weights have two or three dimensions, so that a weight of four or five is in blocks of FRACTAL_NZ; and
# those among them that read such a weight as blocks whatever its format is.
_TAKES_BLOCKS, _ALWAYS_BLOCKS = "npu_grouped_matmul", "npu_grouped_matmul_swiglu_quant"

# The columns of the narrowest block, int4 in int32; tensors of fewer are MX scales.
_NARROWEST = 8

# Packs int4 in the format of its input.
_PACKS = "npu_convert_weight_to_int4pack"

_NAMES = ("_npu_format_cast", "_npu_format_cast.aclnn", "_npu_format_cast.input_dtype")


def takes_blocks(title: str) -> bool:
    """Whether callers may pass weights of the operator by the blocks of their format."""
    return title.startswith(_TAKES_BLOCKS)


def without_blocks(title: str, value: Any) -> Any:
    """Return a weight in blocks of FRACTAL_NZ, (…, N/n, K/k, k, n), as (…, K, N).

    Such a view of a tensor that was cast shows its memory on a device; here that memory is in row-major order. Any
    other tensor holds the blocks themselves, if the operator ``title`` takes blocks.
    """
    if isinstance(value, (list, tuple)):
        return [without_blocks(title, item) for item in value]
    if not isinstance(value, Tensor) or value.dim() < 4 or value.is_cpu or value.size(-1) < _NARROWEST:
        return value
    *leading, across, down, rows, columns = value.shape
    shape = (*leading, down * rows, across * columns)
    if torch_npu.get_npu_format(value) == torch_npu.Format.FRACTAL_NZ:
        return value.reshape(shape)
    if not title.startswith(_ALWAYS_BLOCKS):
        return value
    return cast(value.movedim(-4, -2).reshape(shape), torch_npu.Format.FRACTAL_NZ)


def keep_blocks(title: str, weight: Any, result: Tensor) -> Tensor:
    """Return the packed ``result`` of ``weight`` in FRACTAL_NZ if the weight is."""
    if title != _PACKS or torch_npu.get_npu_format(weight) != torch_npu.Format.FRACTAL_NZ:
        return result
    return cast(result, torch_npu.Format.FRACTAL_NZ)


def cast(source: Tensor, acl_format: int, *_dtypes: Any, **_named_dtypes: Any) -> Tensor:
    """Return a copy of ``source`` in ``acl_format``."""
    result: Tensor = torch_npu.empty_with_format(
        source.shape, dtype=source.dtype, device=source.device, acl_format=acl_format
    )
    return result.copy_(source)


def cast_if_needed(source: Tensor, acl_format: int, *_dtypes: Any, **_named_dtypes: Any) -> Tensor:
    """Return ``source`` itself if it has that format, else a copy in it."""
    return source if torch_npu.get_npu_format(source).value == acl_format else cast(source, acl_format)


def cast_like(source: Tensor, example: Tensor, **_named_dtypes: Any) -> Tensor:
    """Return ``source`` in the format of ``example``."""
    return cast_if_needed(source, torch_npu.get_npu_format(example).value)


def cast_in_place(target: Tensor, acl_format: int, **_named_dtypes: Any) -> Tensor:
    """Convert ``target`` to ``acl_format`` in place, unless it has that format."""
    result = cast_if_needed(target, acl_format)
    if result is not target:
        target.data = result
    return target


def cast_in_place_like(target: Tensor, example: Tensor, **_named_dtypes: Any) -> Tensor:
    """Convert ``target`` to the format of ``example`` in place."""
    return cast_in_place(target, torch_npu.get_npu_format(example).value)


def register(library: torch.library.Library) -> None:
    """Register the casts for tensors of the host NPU."""
    for name in _NAMES:
        implement(library, name, cast, "PrivateUse1")
    implement(library, "npu_format_cast", cast_if_needed, "PrivateUse1")
    implement(library, "npu_format_cast.Tensor", cast_like, "PrivateUse1")
    for name in ("npu_format_cast", "npu_format_cast.Tensor"):
        library.impl(name, pass_gradient(f"npu::{name}"), "AutogradPrivateUse1")
    implement(library, "npu_format_cast_.acl_format", cast_in_place, "PrivateUse1")
    implement(library, "npu_format_cast_", cast_in_place_like, "PrivateUse1")

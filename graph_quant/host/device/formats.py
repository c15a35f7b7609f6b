"""Formats on the host NPU: a tensor answers the format it was cast to, and its values lie as before.

A format is a layout that kernels of a device prefer. Kernels of the host read every tensor row by row, so
that only the name of the format is kept: torch_npu's own, in the tensor's storage.
"""

from __future__ import annotations

from typing import Any

import torch
import torch_npu
from torch import Tensor

_NAMES = ("npu_format_cast", "_npu_format_cast", "_npu_format_cast.aclnn", "_npu_format_cast.input_dtype")


def cast(source: Tensor, acl_format: int, *_dtypes: Any, **_named_dtypes: Any) -> Tensor:
    """A copy of ``source`` in ``acl_format``."""
    result: Tensor = torch_npu.empty_with_format(
        source.shape, dtype=source.dtype, device=source.device, acl_format=acl_format
    )
    return result.copy_(source)


def cast_like(source: Tensor, example: Tensor, **_named_dtypes: Any) -> Tensor:
    """A copy of ``source`` in the format of ``example``."""
    return cast(source, torch_npu.get_npu_format(example).value)


def cast_in_place(target: Tensor, acl_format: int, **_named_dtypes: Any) -> Tensor:
    """Gives ``target`` memory in ``acl_format``, with the values it had."""
    target.data = cast(target, acl_format)
    return target


def cast_in_place_like(target: Tensor, example: Tensor, **_named_dtypes: Any) -> Tensor:
    """Gives ``target`` memory in the format of ``example``, with the values it had."""
    return cast_in_place(target, torch_npu.get_npu_format(example).value)


def register(library: torch.library.Library) -> None:
    """Serves the casts on tensors of the host NPU."""
    for name in _NAMES:
        library.impl(name, cast, "PrivateUse1", allow_override=True)
    library.impl("npu_format_cast.Tensor", cast_like, "PrivateUse1", allow_override=True)
    library.impl("npu_format_cast_.acl_format", cast_in_place, "PrivateUse1", allow_override=True)
    library.impl("npu_format_cast_", cast_in_place_like, "PrivateUse1", allow_override=True)

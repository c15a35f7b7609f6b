"""Tensors that a GE graph carries."""

from __future__ import annotations

import math
from typing import Any

import torch

from .torch_dtypes import from_desc


def decode_tensor(tensor: Any) -> torch.Tensor:
    """A TensorDef as a torch tensor. One that claims other elements than it carries is refused."""
    dtype = from_desc(tensor.desc.dtype)
    shape = tuple(tensor.desc.shape.dim)
    count = math.prod(shape)
    if min(shape, default=0) < 0 or len(tensor.data) != count * dtype.itemsize:
        name = str(dtype).removeprefix("torch.")
        raise ValueError(f"a tensor claims to be {name}{list(shape)} and carries {len(tensor.data)} bytes")
    if not count:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(tensor.data), dtype=dtype).reshape(shape)

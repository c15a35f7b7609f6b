"""Dtypes of Data nodes, and tensors over the memory of ConstPlaceHolder nodes."""

from __future__ import annotations

import math

import torch

from ...ge import Node, from_attr, from_desc


def dtype(node: Node) -> torch.dtype:
    """Return the torch dtype that a Data node declares."""
    return from_desc(node.proto.output_desc[0].dtype)


def memory_at(node: Node) -> torch.Tensor:
    """Return a tensor over the host memory whose address a ConstPlaceHolder holds."""
    shape = tuple(node.attribute("origin_shape") or ())
    kind = from_attr(node.attribute("dtype"))
    size = math.prod(shape) * torch.empty((), dtype=kind).element_size()
    storage = torch._C._construct_storage_from_data_pointer(node.attribute("addr"), torch.device("cpu"), size)
    return torch.empty(0, dtype=kind).set_(storage).reshape(shape)  # type: ignore[call-overload, no-any-return]

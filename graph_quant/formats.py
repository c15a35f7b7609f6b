"""Storage formats: how a tensor lies in device memory, as far as rules of operators depend on it.

A tensor of the host NPU keeps the format that it was cast to, and so does its CPU alias in a call. Tensors of the CPU
have no format, and neither have traced ones: GE converts formats inside a graph.
"""

from __future__ import annotations

import functools
from enum import Enum

import torch
from torch._subclasses.fake_tensor import FakeTensor


class Format(Enum):
    """The formats that rules distinguish; all formats in row-major order are ND to a kernel."""

    ND = "ND"
    NZ = "FRACTAL_NZ"
    OTHER = "another private format"

    def __str__(self) -> str:
        return self.value


ND, NZ = Format.ND, Format.NZ
# The attribute of a CPU or meta alias that holds the format of the npu tensor that it stands for.
_ATTRIBUTE = "npu_storage_format"
_ROW_MAJOR = frozenset(("ND", "NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC", "NC", "NCL", "UNDEFINED"))


def storage_format(tensor: torch.Tensor) -> Format | None:
    """Return the storage format of a tensor; ``None`` for a traced one and for one of the CPU, which have none."""
    if isinstance(tensor, FakeTensor) or tensor.device.type != "npu":
        return kept_format(tensor)
    return _format_of(torch.ops.npu.get_npu_format.default._op(tensor))


@functools.cache
def _format_of(number: int) -> Format:
    import torch_npu

    name = torch_npu.Format(number).name
    if name == "FRACTAL_NZ":
        return NZ
    return ND if name in _ROW_MAJOR else Format.OTHER


def give_format(alias: torch.Tensor, stored: Format) -> None:
    """Let a meta tensor, which stands for an npu tensor that does not exist, report a format."""
    setattr(alias, _ATTRIBUTE, stored)


def kept_format(alias: torch.Tensor) -> Format | None:
    """Return the format that ``keep_format`` let a CPU or meta tensor report."""
    kept: Format | None = getattr(alias, _ATTRIBUTE, None)
    return kept


def keep_format(alias: torch.Tensor, stored: Format | None) -> None:
    """Let the CPU or meta alias of an npu tensor report the format of that tensor."""
    setattr(alias, _ATTRIBUTE, stored)

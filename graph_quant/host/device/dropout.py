"""Operators that draw random numbers and take no generator: composed of those that take one, on npu tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..alias import NPU


def native_dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """PyTorch's own composition on the CPU, with the mask drawn by the NPU's generator."""
    if train is False:
        return x.clone(), torch.ones(x.size(), dtype=torch.bool, device=NPU)
    keeps = 1 - p
    mask = torch.empty(x.size(), dtype=torch.bool, device=NPU).bernoulli_(keeps)
    return x.mul(mask).mul_(1 / keeps if keeps else 0.0), mask


def native_dropout_out(x: Tensor, p: float, train: bool | None, *, out0: Tensor, out1: Tensor) -> tuple[Tensor, Tensor]:
    """The same into given tensors."""
    result, mask = native_dropout(x, p, train)
    return out0.resize_(result.size()).copy_(result), out1.resize_(mask.size()).copy_(mask)


def randperm(n: int, **options: Any) -> Tensor:
    """The overload without a generator draws from the default one."""
    return torch.ops.aten.randperm.generator(n, generator=None, **options)  # type: ignore[no-any-return]


def randperm_out(n: int, *, out: Tensor) -> Tensor:
    """The same into a given tensor."""
    return torch.ops.aten.randperm.generator_out(n, generator=None, out=out)  # type: ignore[no-any-return]


def dropout_with_byte_mask(x: Tensor, p: float, train: bool) -> Tensor:
    """Dropout whose mask has a byte for each element, by the operator that has a gradient."""
    if not train or p == 0 or x.numel() == 0:
        return x
    return torch.ops.npu._dropout_with_byte_mask(x, p)[0]  # type: ignore[no-any-return]


def dropout_gen_mask(size: Sequence[int], p: float, *, device: torch.device | None = None, **_options: Any) -> Tensor:
    """A mask of bits that the device's generator draws; whatever dtype is asked for, it is uint8."""
    drawn_for = torch.empty(size, dtype=torch.float16, device=device or NPU)
    return torch.ops.npu._npu_dropout(drawn_for, p)[1]  # type: ignore[no-any-return]


COMPOSED: dict[str, Callable[..., Any]] = {
    "aten::native_dropout": native_dropout,
    "aten::native_dropout.out": native_dropout_out,
    "npu::dropout_with_byte_mask": dropout_with_byte_mask,
    "aten::randperm": randperm,
    "aten::randperm.out": randperm_out,
}
# Those that are given no tensor, so that no device's kernel is asked for.
FACTORIES: dict[str, Callable[..., Any]] = {"npu::npu_dropout_gen_mask": dropout_gen_mask}

"""one_, npu_one_hot, npu_mish, npu_sign_bits_pack, npu_sign_bits_unpack and _npu_dtype_cast."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def one(input: Tensor) -> Tensor:  # noqa: A002
    """Fills ``input`` with ones."""
    return input.fill_(1)


def one_hot(input: Tensor, depth: int, on_value: float, off_value: float) -> Tensor:  # noqa: A002
    """on_value at the index of each class, else off_value; classes outside [0, depth) have no on_value."""
    classes = torch.arange(depth, device=input.device)
    return torch.where(input.long().unsqueeze(-1) == classes, float(on_value), float(off_value)).float()


def mish(input: Tensor) -> Tensor:  # noqa: A002
    """``x * tanh(log(1 + exp(x)))`` in float32, rounded once."""
    return functional.mish(input.float()).to(input.dtype)


def sign_bits_pack(input: Tensor, size: int) -> Tensor:  # noqa: A002
    """A bit per element, lowest first, 0 for negative ones; the last byte is padded with 0."""
    bits = functional.pad((input >= 0).to(torch.uint8), (0, -input.size(0) % 8)).view(-1, 8)
    shifts = torch.arange(8, dtype=torch.uint8, device=input.device)
    return (bits << shifts).sum(1, dtype=torch.uint8).view(size, -1)


def sign_bits_unpack(input: Tensor, size: int, dtype: torch.dtype) -> Tensor:  # noqa: A002
    """1 for each bit that is set, else -1, lowest bit first."""
    shifts = torch.arange(8, dtype=torch.uint8, device=input.device)
    bits = (input[:, None] >> shifts) & 1
    return (bits.to(dtype) * 2 - 1).view(size, -1)


def cast(input: Tensor, dtype: torch.dtype) -> Tensor:  # noqa: A002
    """``input`` in another dtype."""
    return input.to(dtype)

"""npu_transpose, and npu_confusion_transpose with its gradient."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def transpose(input: Tensor, perm: Sequence[int]) -> Tensor:  # noqa: A002
    """``input`` with permuted dimensions."""
    return input.permute(tuple(perm))


def confusion_transpose(x: Tensor, before: Sequence[int], order: Sequence[int], after: Sequence[int]) -> Tensor:
    """``x`` reshaped to ``before``, permuted by ``order``, and reshaped to ``after``."""
    return x.reshape(before).permute(tuple(order)).reshape(after)

"""In-place products of lists of half-precision tensors with numbers, in float32 as in the other forms.

PyTorch's CPU kernel rounds the number to the dtype of the tensors first, in this form alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from ...reference.half_precision import HALF_DTYPES
from ..alias import as_cpu
from .kernels import Kernel


def _multiply_each(_op: OpOverload, kernel: Kernel) -> Kernel:
    def wrapper(tensors: Sequence[Tensor], numbers: Any) -> None:
        if all(tensor.dtype not in HALF_DTYPES for tensor in tensors):
            kernel(tensors, numbers)
            return
        column = numbers if isinstance(numbers, (list, tuple)) else repeat(numbers, len(tensors))
        for tensor, number in zip(tensors, column, strict=True):
            as_cpu(tensor).mul_(number)

    return wrapper


WRAPPERS = dict.fromkeys(("aten::_foreach_mul_.Scalar", "aten::_foreach_mul_.ScalarList"), _multiply_each)

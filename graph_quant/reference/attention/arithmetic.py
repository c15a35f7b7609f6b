"""Arithmetic of scores, weights and the weighted sum, where the attention kernels differ.

All kernels compute in float32, in this order: scores are ``q @ k.T``; they are scaled; weights are
``exp(score - row maximum)``; their sum is taken before they are rounded to the dtype of the second matmul; the weighted
sum of values is divided by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_INT8_LARGEST = 127.0


def _rounded_int8(x: Tensor) -> Tensor:
    return x.round_().clamp_(-128.0, 127.0)


@dataclass(frozen=True)
class Arithmetic:
    """Float kernels: weights are rounded to the dtype of ``value``, and stay float32 for a quantised cache."""

    scale: float
    weight_dtype: torch.dtype = torch.float32

    def scores(self, products: Tensor, rows: Tensor) -> Tensor:  # noqa: ARG002
        """Scores (row, key) from the dot products; ``rows`` are the indices of the query rows."""
        return products.mul_(self.scale)

    def weights(self, exponentials: Tensor) -> Tensor:
        """The weights that multiply the values."""
        if self.weight_dtype == torch.float32:
            return exponentials
        return exponentials.to(self.weight_dtype).float()

    def result(self, sums: Tensor, total: Tensor) -> Tensor:
        """The weighted mean of the values."""
        return sums.div_(total)


@dataclass(frozen=True)
class Int8Prompt(Arithmetic):
    """int8 query, key and value of the prompt kernel: both matmuls are dequantised to float16, weights are int8."""

    dequant_scale1: float = 1.0
    quant_scale1: float = 1.0
    dequant_scale2: float = 1.0

    def scores(self, products: Tensor, rows: Tensor) -> Tensor:  # noqa: ARG002
        return products.mul_(self.dequant_scale1).half().float().mul_(self.scale).half().float()

    def weights(self, exponentials: Tensor) -> Tensor:
        return _rounded_int8(exponentials.half().float().mul_(self.quant_scale1))

    def result(self, sums: Tensor, total: Tensor) -> Tensor:
        return sums.mul_(self.dequant_scale2).half().float().div_(total)


@dataclass(frozen=True)
class Int8Latent(Arithmetic):
    """int8 query, key and value with rope parts: one scale per row of query, applied to the rope part as well.

    The rope part of query must therefore be divided by the scales of query and key, as npu_mla_prolog_v3 returns it.
    """

    row_scale: Tensor | None = None
    value_scale: float = 1.0

    def scores(self, products: Tensor, rows: Tensor) -> Tensor:
        assert self.row_scale is not None
        return products.mul_(self.row_scale[rows].mul(self.scale).unsqueeze(-1))

    def weights(self, exponentials: Tensor) -> Tensor:
        return exponentials.mul_(_INT8_LARGEST).half().float().round_()

    def result(self, sums: Tensor, total: Tensor) -> Tensor:
        return sums.div_(total).mul_(self.value_scale / _INT8_LARGEST)

"""Column-parallel and row-parallel quantised linears.

A column-parallel rank holds some of the outputs, a row-parallel one some of the inputs, and partial products are summed
over the ranks. W8A8 and W4A4 products are accumulated in int32, so that results are bitwise those of one rank. W4A8 and
weight-only linears sum floats in an order that depends on the shape, and differ in the last bits; row-parallel
weight-only linears also round on every rank and after each addition.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from graph_quant.destination import INT4
from graph_quant.nn.dynamic_w8a8 import DynamicW8A8Linear
from graph_quant.nn.parallel.ranks import Ranks
from graph_quant.nn.rows import as_rows, like_input
from graph_quant.nn.static_w8a8 import StaticW8A8Linear
from graph_quant.nn.w4a4 import W4A4Linear
from graph_quant.nn.w4a8 import W4A8Linear
from graph_quant.nn.weight_only import W4A16Linear, WeightOnlyLinear
from torch import Tensor, nn

Linears = (DynamicW8A8Linear, StaticW8A8Linear, W4A4Linear, W4A8Linear, WeightOnlyLinear)


def _columns(linear: nn.Module) -> tuple[int, dict[str, tuple[int, int]]]:
    """Return the number of outputs, and for each buffer their dimension and how many of them an element packs."""
    if isinstance(linear, W4A4Linear | DynamicW8A8Linear):
        return linear.scale.size(0), {"weight": (0, 1), "scale": (0, 1), "bias": (0, 1)}
    if isinstance(linear, W4A8Linear):
        packed = (2, INT4.packing)
        return linear.assist.size(-1), {"weight": packed, "scale": (2, 1), "assist": (1, 1), "bias": (0, 1)}
    width = INT4.packing if isinstance(linear, W4A16Linear) else 1
    scale: Any = linear.scale
    return scale.size(-1), {"weight": (1, width), "scale": (scale.dim() - 1, 1), "bias": (0, 1)}


def column_parallel(name: str, linear: nn.Module, ranks: Ranks) -> nn.Module:
    """Return the linear with this rank's outputs only."""
    size, buffers = _columns(linear)
    unit = max(held for _, held in buffers.values())
    part = ranks.part(f"the outputs of {name}", size, unit)
    narrow = copy.copy(linear)
    narrow._buffers = dict(linear._buffers)
    for buffer, (dim, held) in buffers.items():
        whole = linear._buffers[buffer]
        if whole is not None:
            part_of_buffer = whole.narrow(dim, part.start // held, (part.stop - part.start) // held)
            narrow._buffers[buffer] = part_of_buffer.contiguous()
    return narrow


class GatheredLinear(nn.Module):
    """A column-parallel linear whose outputs are gathered on every rank."""

    def __init__(self, part: nn.Module, ranks: Ranks) -> None:
        super().__init__()
        self.part, self._ranks = part, ranks

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of all ranks."""
        return self._ranks.all_gather(self.part(x))


class _RowParallel(nn.Module):
    """A linear with this rank's inputs: x is (…, k / ranks); y (…, n) is the same on all ranks."""

    def __init__(self, name: str, linear: nn.Module, ranks: Ranks, unit: int = 1) -> None:
        super().__init__()
        stored: Any = linear.weight
        weight = stored.t() if isinstance(linear, DynamicW8A8Linear) else stored
        self.weight: Tensor
        self.part = ranks.part(f"the inputs of {name}", weight.size(0), unit)
        self._ranks = ranks
        self.register_buffer("weight", weight[self.part].contiguous())
        for buffer, tensor in linear._buffers.items():
            if buffer != "weight":
                self.register_buffer(buffer, tensor)

    def _sum_products(self, rows: Tensor) -> Tensor:
        """Return the sum of all ranks' products, exact in int32."""
        ones = torch.ones(1, dtype=torch.float32, device=rows.device)
        product = torch.ops.npu.npu_quant_matmul(rows, self.weight, ones, output_dtype=torch.int32)
        return self._ranks.all_reduce(product)

    def extra_repr(self) -> str:
        """Return the text that ``print(model)`` shows."""
        return f"in_features={self.weight.size(0)} of {self.weight.size(0) * self._ranks.count}"


class RowDynamicW8A8Linear(_RowParallel):
    """Gathers rows to quantise them whole: the result is bitwise that of one rank."""

    scale: Tensor
    bias: Tensor | None
    smooth: Tensor | None

    def forward(self, x: Tensor) -> Tensor:
        """Gather rows, quantise them, multiply this rank's part, and sum over the ranks."""
        whole = self._ranks.all_gather(x)
        rows, tokens = torch.ops.npu.npu_dynamic_quant(as_rows(whole), smooth_scales=self.smooth)
        values = self._sum_products(rows[:, self.part].contiguous()).float() * self.scale * tokens.unsqueeze(-1)
        return like_input((values if self.bias is None else values + self.bias).to(x.dtype), x)


class RowStaticW8A8Linear(_RowParallel):
    """All ranks use one scale, so nothing is gathered: the result is bitwise that of one rank."""

    multiplier: Tensor
    zero_point: Tensor
    scale: Tensor
    bias: Tensor

    def __init__(self, name: str, linear: nn.Module, ranks: Ranks) -> None:
        super().__init__(name, linear, ranks)
        if self.multiplier.numel() > 1:
            self.multiplier = self.multiplier[self.part].contiguous()
            self.zero_point = self.zero_point[self.part].contiguous()

    def forward(self, x: Tensor) -> Tensor:
        """Quantise this rank's part, multiply, and sum over the ranks."""
        rows = torch.ops.npu.npu_quantize(
            as_rows(x), self.multiplier, self.zero_point, torch.qint8, axis=-1, div_mode=False
        )
        values = (self._sum_products(rows) + self.bias).float() * self.scale
        return like_input(values.to(x.dtype), x)


class RowWeightOnlyLinear(_RowParallel):
    """Rounds products on every rank and sums them in the dtype of x: the last bits differ from one rank's."""

    scale: Tensor
    bias: Tensor | None

    def __init__(self, name: str, linear: WeightOnlyLinear, ranks: Ranks) -> None:
        super().__init__(name, linear, ranks, linear.group_size or 1)
        self.group_size = linear.group_size
        if self.group_size:
            first = self.part.start // self.group_size
            self.scale = self.scale.narrow(0, first, self.weight.size(0) // self.group_size).contiguous()
        if ranks.rank:
            self.bias = None

    def forward(self, x: Tensor) -> Tensor:
        """Dequantise this rank's weights, multiply, and sum over the ranks; the first rank adds the bias."""
        y = torch.ops.npu.npu_weight_quant_batchmatmul(
            as_rows(x), self.weight, self.scale, bias=self.bias, antiquant_group_size=self.group_size or 0
        )
        return like_input(self._ranks.all_reduce(y), x)


def row_parallel(name: str, linear: nn.Module, ranks: Ranks) -> nn.Module:
    """Return the linear with this rank's inputs only."""
    if isinstance(linear, DynamicW8A8Linear):
        return RowDynamicW8A8Linear(name, linear, ranks)
    if isinstance(linear, StaticW8A8Linear):
        return RowStaticW8A8Linear(name, linear, ranks)
    if isinstance(linear, WeightOnlyLinear):
        return RowWeightOnlyLinear(name, linear, ranks)
    raise TypeError(f"parallelize_: {name}, a {type(linear).__name__}, cannot be shared by rows")

"""Matrix products of half-precision operands: accumulated in float32 and rounded once, as the cube unit does.

Every half-precision product of eager calls, graphs and captures is computed here. Native code multiplies operands where
they are, so that a weight is never copied; a result depends on its row and column alone, not on sizes, strides and
threads. Without native code, products that are large use float32 operands, and small ones PyTorch's CPU kernels: many
CPUs have no instructions for half precision and take minutes for what float32 does in a second.
"""

from __future__ import annotations

import math

import torch
from graph_quant import native
from graph_quant.dispatcher import step
from torch import Tensor

from .half_precision import HALF_DTYPES

# The number of multiplications that PyTorch does in half precision in about 50 ms without such instructions.
MAX_HALF_PRODUCT = 1 << 24
# Whether results depend on strides.
STRIDES_AFFECT_BITS = not native.CAN_MULTIPLY_HALVES


def can_multiply(x1: Tensor, x2: Tensor) -> bool:
    """Whether native code multiplies these operands; fake tensors may be passed."""
    return (
        native.CAN_MULTIPLY_HALVES
        and x1.dtype in HALF_DTYPES
        and x1.dtype == x2.dtype
        and x1.is_cpu
        and x2.is_cpu
        and x1.dim() > 1
        and x2.dim() > 1
    )


def is_large_half_product(x1: Tensor, x2: Tensor) -> bool:
    """Whether ``x1 @ x2`` is a half-precision product to compute in float32. Symbolic sizes count as large."""
    if x1.dtype not in HALF_DTYPES:
        return False
    sizes = (*x1.shape, x2.size(-1) if x2.dim() > 1 else 1)
    return not all(isinstance(size, int) for size in sizes) or math.prod(sizes) > MAX_HALF_PRODUCT


def multiply(x1: Tensor, x2: Tensor, bias: Tensor | None = None, dtype: torch.dtype = torch.float32) -> Tensor:
    """``x1 @ x2 + bias`` of float matrices, accumulated in float32 and rounded once; leading dimensions broadcast."""
    is_differentiated = torch.is_grad_enabled() and (x1.requires_grad or x2.requires_grad)
    if is_differentiated or not can_multiply(x1, x2):
        return _multiply_wide(x1, x2, bias, dtype)
    if type(x1) is type(x2) is Tensor and not torch.compiler.is_dynamo_compiling():
        return _multiply(x1, x2, bias, dtype)
    return STEP(x1, x2, bias, dtype)  # type: ignore[no-any-return]


def multiply_into(x1: Tensor, x2: Tensor, out: Tensor, bias: Tensor | None = None) -> None:
    """Write ``x1 @ x2 + bias`` into ``out``: CPU matrices, or batches of them, that ``can_multiply`` accepts.

    The bias is one float32 for each column.
    """
    if x1.dim() == 2:
        x1, x2, out = x1.unsqueeze(0), x2.unsqueeze(0), out.unsqueeze(0)
    native.half_product(x1, x2, out, bias)


def _multiply_wide(x1: Tensor, x2: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    values = torch.matmul(x1.float(), x2.float())
    return (values if bias is None else values + bias.float()).to(dtype)


def _multiply(x1: Tensor, x2: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    if x1.size(-1) != x2.size(-2):
        return torch.matmul(x1, x2)  # raises
    columns = x2.size(-1)
    if bias is not None and not (bias.dim() == 1 and bias.size(0) == columns):
        return (_multiply(x1, x2, None, torch.float32) + bias.float()).to(dtype)
    row = None if bias is None else bias.float().contiguous()
    if x1.dim() == x2.dim() == 2:
        out = x1.new_empty((x1.size(0), columns), dtype=dtype)
        native.half_product(x1.unsqueeze(0), x2.unsqueeze(0), out.unsqueeze(0), row)
        return out
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    out = x1.new_empty((*batch, x1.size(-2), columns), dtype=dtype)
    if math.prod(x2.shape[:-2]) == 1:  # a weight for all rows
        count = math.prod(x1.shape[:-1])
        rows, matrix = x1.reshape(1, count, x1.size(-1)), x2.reshape(1, *x2.shape[-2:])
        native.half_product(rows, matrix, out.view(1, count, columns), row)
        return out
    _multiply_batches(x1.expand(*batch, -1, -1), x2.expand(*batch, -1, -1), out, row)
    return out


def _multiply_batches(x1: Tensor, x2: Tensor, out: Tensor, bias: Tensor | None) -> None:
    """Multiply operands with the same leading dimensions, which are merged where no copy is needed for that."""
    if x1.dim() == 3:
        native.half_product(x1, x2, out, bias)
    elif (merged := _merge_batches(x1, x2)) is not None:
        native.half_product(*merged, out.flatten(0, -3), bias)
    else:
        for one, other, result in zip(x1, x2, out, strict=True):
            _multiply_batches(one, other, result, bias)


def _merge_batches(x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor] | None:
    count = math.prod(x1.shape[:-2])
    try:
        return x1.view(count, *x1.shape[-2:]), x2.view(count, *x2.shape[-2:])
    except RuntimeError:  # strides do not allow it
        return None


def _infer(x1: Tensor, x2: Tensor, _bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return x1.new_empty((*batch, x1.size(-2), x2.size(-1)), dtype=dtype)


STEP = step("half_matmul(Tensor x1, Tensor x2, Tensor? bias, ScalarType dtype) -> Tensor", _multiply, _infer)

"""npu_quant_matmul on Ascend 950: the products of integers, float8, HiFloat8 and float4, and their scales.

========= ====================================================================================================
form      result, every step rounded to float32
========= ====================================================================================================
packed    ``(x1 @ x2 + bias) * scale``, with the 19 bits of a packed scale; int8 as on other chips
channels  ``x1 @ x2 * scale * pertoken_scale + bias``; an int32 bias is added to the product
tensor    float8 with two scales of one element and no bias: ``x1 @ x2`` times 19 bits of the product of both; int8
          with one float scale of one element and no float bias: times 19 bits of it
blocks    for each 128 of k ``x1 @ x2 * (pertoken_scale * scale)``, added up in that order; ``+ bias``
mx        ``(x1 * pertoken_scale) @ (x2 * scale) + bias``, a scale for every 32 of k
========= ====================================================================================================

The matrix unit's own scaling reads 19 bits, the vector unit's all of a float32: which of the two scales a call is what
the forms differ in.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant import int4, quant_params
from graph_quant.destination import element_destination
from graph_quant.reference.matmul.int8_matmul import int8_matmul
from graph_quant.reference.matmul.narrow_products import carried, multiply_mx, multiply_narrow
from graph_quant.reference.matmul.requantise import requantise
from graph_quant.reference.opaque import opaque
from torch import Tensor

INT4, INT8 = "int4", "int8"
INTEGERS = (INT8, INT4)
K_BLOCK = N_BLOCK = 128


@dataclass(frozen=True)
class NarrowForm:
    """What a call of npu_quant_matmul on Ascend 950 means.

    Attributes:
        x1: GE's name of the dtype of x1.
        x2: That of x2.
        x1_along_m: Whether float4 of x1 are packed along m, as in a transposed view.
        x2_along_k: Whether the elements of x2 that share a byte or an int32 are packed along k.
        is_mx: Whether the scales are codes of float8_e8m0fnu.
        packs_scale: Whether a float scale must be packed first.
    """

    x1: str
    x2: str
    x1_along_m: bool = False
    x2_along_k: bool = False
    is_mx: bool = False
    packs_scale: bool = False


def quant_matmul_950(
    form: NarrowForm,
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    pertoken_scale: Tensor | None,
    bias: Tensor | None,
    dtype: torch.dtype,
) -> Tensor:
    """The product of operands as torch passes them."""
    if form.x1 == INT4:
        x1, x2 = int4.unpack(x1), int4.unpack(x2.mT).mT if form.x2_along_k else int4.unpack(x2)
    elif form.x1 != INT8:
        x1 = carried(x1, form.x1, is_packed_along_rows=form.x1_along_m)
        x2 = carried(x2, form.x2, is_packed_along_rows=form.x2_along_k)
    if form.is_mx:
        assert pertoken_scale is not None
        scale, pertoken_scale = scale.view(torch.uint8), pertoken_scale.view(torch.uint8)
    if form.packs_scale:
        scale = quant_params.encode(scale, offset)
    return multiply_and_scale(x1, x2, scale, pertoken_scale, bias, dtype)


def node_950(
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    pertoken_scale: Tensor | None,
    bias: Tensor | None,
    dtype: int,
    transpose_x1: bool,
    transpose_x2: bool,
) -> Tensor:
    """What QuantBatchMatmulV3 and V4 compute. Scales of blocks are transposed as their operands are."""
    if pertoken_scale is not None and pertoken_scale.dim() > 1:
        is_mx = pertoken_scale.dtype == torch.float8_e8m0fnu
        inner = (-3, -2) if is_mx else (-2, -1)
        pertoken_scale = pertoken_scale.transpose(*inner) if transpose_x1 else pertoken_scale
        scale = scale.transpose(*inner) if transpose_x2 else scale
        if is_mx:
            pertoken_scale, scale = pertoken_scale.view(torch.uint8), scale.view(torch.uint8)
    return multiply_and_scale(
        x1.mT if transpose_x1 else x1,
        x2.mT if transpose_x2 else x2,
        quant_params.signed(scale),
        pertoken_scale,
        bias,
        element_destination(dtype).storage,
    )


def multiply_and_scale(
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    pertoken_scale: Tensor | None,
    bias: Tensor | None,
    dtype: torch.dtype,
) -> Tensor:
    """The product of operands that are carried as in a graph; int4 and int8 in int8."""
    if x1.dtype == torch.int8 and (pertoken_scale is None or pertoken_scale.dim() == 1):
        return _scale_integers(x1, x2, scale, pertoken_scale, bias, dtype)
    return scaled_narrow_product(x1, x2, scale, pertoken_scale, bias, dtype)


def _infer(
    x1: Tensor,
    x2: Tensor,
    _scale: Tensor,
    _pertoken_scale: Tensor | None,
    _bias: Tensor | None,
    dtype: torch.dtype,
) -> Tensor:
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return x1.new_empty((*batch, x1.size(-2), x2.size(-1)), dtype=dtype)


@opaque(_infer)
def scaled_narrow_product(
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    pertoken_scale: Tensor | None,
    bias: Tensor | None,
    dtype: torch.dtype,
) -> Tensor:
    """The scaled product of float8, HiFloat8 or float4, or of int8 with scales of blocks."""
    if pertoken_scale is not None and scale.dtype == torch.uint8:
        values = multiply_mx(x1, x2, pertoken_scale, scale)
        return _add(values, bias).to(dtype)
    if pertoken_scale is not None and pertoken_scale.dim() > 1:
        return _add(multiply_blocks(x1, x2, scale, pertoken_scale), bias).to(dtype)
    values = multiply_narrow(x1, x2)
    if scale.dtype == torch.int64:
        return (_add(values, bias) * quant_params.decode(scale)[0]).to(dtype)
    assert pertoken_scale is not None
    if bias is None and scale.numel() == pertoken_scale.numel() == 1:
        return (values * keep_19_bits(scale * pertoken_scale)).to(dtype)
    return _add(values * scale * pertoken_scale.unsqueeze(-1), bias).to(dtype)


def multiply_blocks(x1: Tensor, x2: Tensor, scale: Tensor, pertoken_scale: Tensor) -> Tensor:
    """Blocks of k one after the other; ``scale`` is (…, blocks of k, blocks of n)."""
    rows, columns = x1.size(-2), x2.size(-1)
    groups = pertoken_scale.size(-2)
    # There are scales for single rows, as many as rows, or for 128 of them.
    tall = pertoken_scale if groups == rows else pertoken_scale.repeat_interleave(N_BLOCK, -2).narrow(-2, 0, rows)
    wide = scale.repeat_interleave(N_BLOCK, -1).narrow(-1, 0, columns)
    total: Tensor | None = None
    parts = zip(x1.split(K_BLOCK, -1), x2.split(K_BLOCK, -2), strict=True)
    for index, (left, right) in enumerate(parts):
        product = int8_matmul(left, right).float() if x1.dtype == torch.int8 else multiply_narrow(left, right)
        part = product * (tall[..., index].unsqueeze(-1) * wide[..., index, :].unsqueeze(-2))
        total = part if total is None else part + total
    assert total is not None
    return total


def _scale_integers(
    x1: Tensor, x2: Tensor, scale: Tensor, pertoken_scale: Tensor | None, bias: Tensor | None, dtype: torch.dtype
) -> Tensor:
    accumulator = int8_matmul(x1, x2)
    if bias is not None and bias.dtype == torch.int32:
        accumulator, bias = accumulator + bias, None
    if dtype == torch.int32:
        return accumulator
    if scale.dtype == torch.int64:
        if dtype == torch.int8:
            return requantise(accumulator, scale)
        return (accumulator.float() * quant_params.decode(scale)[0]).to(dtype)
    values = accumulator.float()
    if pertoken_scale is not None:
        return _add(values * scale.float() * pertoken_scale.unsqueeze(-1), bias).to(dtype)
    multiplier = keep_19_bits(scale.float()) if scale.numel() == 1 and bias is None else scale.float()
    return _add(values * multiplier, bias).to(dtype)


def keep_19_bits(scale: Tensor) -> Tensor:
    """A float32 scale as the matrix unit reads it, without its lower bits."""
    return quant_params.decode(quant_params.encode(scale))[0]


def _add(values: Tensor, bias: Tensor | None) -> Tensor:
    return values if bias is None else values + bias.float()

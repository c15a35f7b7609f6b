"""npu_weight_quant_batchmatmul on Ascend 950: what may be passed.

x (m, k) is float16 or bfloat16 and not a transposed view; quant_scale and quant_offset are None.

========= ============================================ =================== ===================================
weight    antiquant_scale                              antiquant_offset    bias
========= ============================================ =================== ===================================
int8      x's dtype, for all, columns or groups        like the scale      x's dtype, or float32 of bfloat16 x
int4      the same, eight to an int32                  like the scale      the same
float8    float8_e4m3fn: x's dtype, for columns        none                x's dtype
HiFloat8  weight_dtype 290: the same                   none                x's dtype
float4    eight to a float32: codes of float8_e8m0fnu  none                x's dtype
          for groups of 32
========= ============================================ =================== ===================================

Scales of two dimensions are a transposed view exactly where the weight is. A weight in FRACTAL_NZ is int8 with a scale
for each column, or int4 with columns or groups and not transposed; float4 in FRACTAL_NZ is not described yet.
"""

from __future__ import annotations

import torch
from graph_quant.meta.matmul.weight_quant_parameters import is_transposed
from graph_quant.meta.rules import Rules, Size, sym_or
from graph_quant.narrow_floats import E2M1, E4M3, find_format
from graph_quant.reference.matmul.narrow_products import BLOCK, HIFLOAT8
from graph_quant.refusals import UndescribedError
from torch import Tensor

HIFLOAT8_NUMBER = 290
INT4, INT8 = "int4", "int8"
_CARRIED = {torch.int8: INT8, torch.int32: INT4, torch.float32: E2M1.name, torch.float8_e4m3fn: E4M3.name}
_CODES = (torch.uint8, torch.float8_e8m0fnu)
_LARGEST_NZ = 65535


def describe_weight(rules: Rules, weight: Tensor, requested: int | None) -> str:
    """GE's name of the weight's dtype."""
    if requested is None:
        rules.dtype("weight", weight, tuple(_CARRIED), ", or have weight_dtype torch_npu.hifloat8")
        return _CARRIED[weight.dtype]
    if requested == HIFLOAT8_NUMBER:
        rules.dtype("weight", weight, (torch.uint8, torch.int8), " for weight_dtype torch_npu.hifloat8")
        return HIFLOAT8
    target = find_format(requested)
    rules.require(
        target is E4M3,
        lambda: (
            "weight_dtype must be torch_npu.hifloat8, torch.float8_e4m3fn or None; eight float4 are passed as a "
            f"float32, got {requested}"
        ),
    )
    rules.dtype("weight", weight, (torch.float8_e4m3fn,), " for weight_dtype torch.float8_e4m3fn")
    return E4M3.name


def check_dtypes(
    rules: Rules,
    name: str,
    x: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    bias: Tensor | None,
    group_size: int,
) -> None:
    """Check the dtypes of the parameters of a weight, and which groups it has."""
    is_integer, why = name in (INT4, INT8), f" for {name} weights"
    rules.rank("antiquant_scale", scale, 1, 2)
    if name == E2M1.name:
        if scale.dtype == x.dtype:
            raise UndescribedError(
                f"{rules.op}: antiquant_scale of {scale.dtype} for float4 weights is not described for Ascend 950 yet"
            )
        rules.dtype("antiquant_scale", scale, _CODES, why)
        rules.one_of("antiquant_group_size", group_size, (BLOCK,), why)
    else:
        rules.dtype("antiquant_scale", scale, (torch.float16, torch.bfloat16), why)
        rules.same_dtype_eagerly("antiquant_scale", scale, "x", x)
    if not is_integer and name != E2M1.name:
        rules.one_of("antiquant_group_size", group_size, (0,), why)
    if offset is not None:
        rules.require(is_integer, lambda: f"antiquant_offset must be None{why}, got a tensor")
        rules.dtype("antiquant_offset", offset, (scale.dtype,), ", the dtype of antiquant_scale")
        rules.same_shape("antiquant_offset", offset, "antiquant_scale", scale)
    if bias is not None:
        wide = (torch.float32,) if is_integer and x.dtype == torch.bfloat16 else ()
        rules.dtype("bias", bias, (x.dtype, *wide), f" for x of {x.dtype} and {name} weights")


def check_views(rules: Rules, x: Tensor, weight: Tensor, scale: Tensor, offset: Tensor | None) -> None:
    """Check the strides of an eager call; a graph converts them."""
    if not rules.is_eager:
        return
    rules.require(x.is_contiguous(), lambda: f"x must be contiguous when run eagerly, got strides {list(x.stride())}")
    is_view = is_transposed(weight) and weight.numel() != 1
    for name, tensor in (("antiquant_scale", scale), ("antiquant_offset", offset)):
        if tensor is None or tensor.dim() == 1 or tensor.numel() == 1:
            continue
        rules.require(
            is_transposed(tensor) if is_view else tensor.is_contiguous(),
            lambda: (
                f"{name} must be a transposed view exactly where weight is when run eagerly, "  # noqa: B023
                f"got strides {list(tensor.stride())}"  # noqa: B023
            ),
        )


def check_columns(rules: Rules, name: str, scale: Tensor, columns: Size) -> None:
    """Require a scale for each column of float8 weights."""
    if name in (E4M3.name, HIFLOAT8):
        rules.equal("antiquant_scale.size(-1)", scale.size(-1), f"n for {name} weights", columns)


def check_nz(
    rules: Rules,
    name: str,
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    group_size: int,
    columns: Size,
    packed_along_k: bool,
) -> None:
    """Check a weight in FRACTAL_NZ."""
    if name == E2M1.name:
        raise UndescribedError(f"{rules.op}: float4 weights in FRACTAL_NZ are not described for Ascend 950 yet")
    why = f" for {name} weights in FRACTAL_NZ"
    rules.require(name in (INT4, INT8), lambda: f"weight must be int8 or int4 in FRACTAL_NZ, got {name}")
    rules.require(
        sym_or(scale.numel() != 1, columns == 1),
        lambda: f"antiquant_scale must have an element for each column{why}, got 1",
    )
    if name == INT4:
        rules.require(not packed_along_k, lambda: f"weight must not be a transposed view{why}")
        return
    rules.one_of("antiquant_group_size", group_size, (0,), why)
    for label, size in (("k", x.size(1)), ("n", columns)):
        rules.require(size <= _LARGEST_NZ, lambda: f"{label} must be at most {_LARGEST_NZ}{why}, got {size}")  # noqa: B023
    rules.at_least("n", columns, 2)
    if bias is not None and x.dtype == torch.bfloat16:
        rules.dtype("bias", bias, (torch.float32,), f" for x of {x.dtype}{why}")

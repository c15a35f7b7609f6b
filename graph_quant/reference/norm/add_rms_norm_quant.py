"""npu_add_rms_norm_quant: residual addition, RMS norm, and one or two static quantisations.

With v the norm plus beta, ``y = sat(rint(v / scale + zero point))``, or ``v * scale`` if div_mode is False, in float32.
float16 normalises the rounded sum and rounds after the product with rstd and again after the product with gamma.
bfloat16 is float32 throughout; it normalises the rounded sum with beta, or if every row has a vector core of its own.
Per-tensor scales have a separate kernel: nothing is rounded before the integer, and v is multiplied by ``1 / scale``.

On Ascend 950 every dtype normalises the sum before it is rounded, in float32 throughout, also to float8 and HiFloat8.
"""

from __future__ import annotations

import math

import torch
from graph_quant import chip
from graph_quant.chip import A2_A3_950
from graph_quant.destination import INT8, Destination, element_destination
from graph_quant.ge import kernel
from graph_quant.reference.norm.rms import has_core_per_row, normalise, reciprocal_rms, scale_with_two_roundings
from graph_quant.reference.rounding import affine, store
from torch import Tensor

# The most elements of a row for the kernel for few rows, and its bytes if there is a second result.
_ROOM, _LOCAL_BYTES = 12224, 191 * 1024


def add_rms_norm_quant(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    scales1: Tensor,
    zero_points1: Tensor | None,
    beta: Tensor | None,
    scales2: Tensor | None,
    zero_points2: Tensor | None,
    epsilon: float,
    div_mode: bool,
    per_tensor: bool = False,
    destination: Destination = INT8,
) -> tuple[Tensor, Tensor, Tensor]:
    """``(y1, y2, x1 + x2)``; y2 is zero without a second scale; the device leaves it uninitialised."""
    wide = x1.float() + x2.float()
    x = wide.to(x1.dtype)
    if chip.is_950():
        normed = normalise(wide, gamma, beta, epsilon)
        y1 = affine(normed, scales1, zero_points1, destination, divide=div_mode)
        if scales2 is None:
            return y1, torch.zeros_like(y1.view(torch.uint8)).view(y1.dtype), x
        return y1, affine(normed, scales2, zero_points2, destination, divide=div_mode), x
    if per_tensor:
        gamma = gamma.reshape(-1)
    elif x1.dtype == torch.float16 or beta is not None or _uses_few_rows_kernel(x1, gamma, scales2, zero_points2):
        wide = x.float()
    rstd = reciprocal_rms(wide, gamma.dim(), epsilon)
    if x1.dtype == torch.float16 and not per_tensor:
        normed = scale_with_two_roundings(wide, rstd, gamma).float()
    else:
        normed = wide * rstd * gamma.float()
    if beta is not None:
        normed = normed + beta.float()
    if per_tensor:
        assert zero_points1 is not None
        y1 = store(normed * scales1.float().reciprocal() + zero_points1.float(), INT8)
    else:
        y1 = affine(normed, scales1, zero_points1, INT8, divide=div_mode)
    if scales2 is None:
        return y1, torch.zeros_like(y1), x
    return y1, affine(normed, scales2, zero_points2, INT8, divide=div_mode), x


def _uses_few_rows_kernel(x: Tensor, gamma: Tensor, scales2: Tensor | None, zero_points2: Tensor | None) -> bool:
    """Whether the device uses its kernel for few rows, which fits fewer elements of a row with a second result."""
    room = _ROOM
    if scales2 is not None:
        room = _LOCAL_BYTES // (24 if zero_points2 is None else 28) // 32 * 32
    return has_core_per_row(x, gamma.dim()) and math.prod(gamma.shape) <= room


@kernel("AddRmsNormQuant", flops=12, same=("x1", "x2", "gamma"), chips=A2_A3_950)
def add_rms_norm_quant_node(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    scales1: Tensor,
    scales2: Tensor | None = None,
    zero_points1: Tensor | None = None,
    zero_points2: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    axis: int = -1,  # noqa: ARG001 (the kernel does not read it)
    epsilon: float = 1e-6,
    div_mode: bool = True,
    dst_type: int = 2,
) -> tuple[Tensor, Tensor, Tensor]:
    if not chip.is_950():
        _require_int8("AddRmsNormQuant", dst_type)
    return add_rms_norm_quant(
        x1,
        x2,
        gamma,
        scales1,
        zero_points1,
        beta,
        scales2,
        zero_points2,
        epsilon,
        div_mode,
        destination=element_destination(dst_type),
    )


@kernel("AddRmsNormQuantV2", flops=12)
def add_rms_norm_quant_v2_node(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    scales1: Tensor,
    scales2: Tensor | None = None,
    zero_points1: Tensor | None = None,
    zero_points2: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-6,
    div_mode: bool = True,
    dst_type: int = 2,
    output_res: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Per-tensor scales with a bias; other uses have no host kernel."""
    _require_int8("AddRmsNormQuantV2", dst_type)
    is_alone = scales2 is None and zero_points2 is None and zero_points1 is not None and div_mode
    if not is_alone or bias is None or output_res or axis == 0:
        raise NotImplementedError("AddRmsNormQuantV2: only one scale beside a bias has a host kernel")
    results = add_rms_norm_quant(x1, x2, gamma, scales1, zero_points1, bias, None, None, epsilon, True, True)
    return *results, torch.zeros_like(results[2])


def _require_int8(node: str, dst_type: int) -> None:
    if dst_type != INT8.ge_attr:
        raise NotImplementedError(f"{node}: dst_type {dst_type} has no host kernel, only {INT8.ge_attr} (int8)")

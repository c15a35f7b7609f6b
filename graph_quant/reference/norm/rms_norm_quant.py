"""npu_rms_norm_quant: RMS norm with per-tensor quantisation.

``v = (x * rstd * gamma + beta) * (1 / scale) + offset`` in float32, each step rounded. The kernel then rounds v to
float16 and that to the integer, half to even: a tie is decided after the rounding to float16. torch_npu documents a
multiplication by scale; the kernel, aclnnRmsNormQuant and op-plugin's golden divide.

Ascend 950 divides by scale, or in npu_rms_norm_quant_v2 multiplies with div_mode False, adds offset and rounds once.
The scale is one number or one for each column; results are also float8 and HiFloat8.
"""

from __future__ import annotations

import torch
from graph_quant import chip
from graph_quant.chip import ASCEND_950
from graph_quant.destination import INT8, Destination, element_destination
from graph_quant.ge import kernel
from graph_quant.reference.norm.rms import normalise, reciprocal_rms
from graph_quant.reference.rounding import affine, store
from torch import Tensor


def rms_norm_quant(
    x: Tensor, gamma: Tensor, beta: Tensor, scale: Tensor, offset: Tensor, epsilon: float, destination: Destination
) -> Tensor:
    """The norm of the last dimension of ``x`` as integers of ``destination``."""
    if chip.is_950():
        return rms_norm_quant_v2(x, gamma, scale, offset, beta, epsilon, True, destination)[0]
    wide = x.float()
    normed = wide * reciprocal_rms(wide, 1, epsilon) * gamma.reshape(-1).float() + beta.reshape(-1).float()
    scaled = normed * scale.float().reciprocal() + offset.float()
    return store(scaled.half().float(), destination)


@kernel("RmsNormQuant", flops=10, same=("x", "gamma", "beta", "scale"), packs=True)
def rms_norm_quant_node(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    scale: Tensor,
    offset: Tensor,
    *,
    epsilon: float = 0.1,
    high_precision_mode: bool = False,  # noqa: ARG001 (the kernel of A2 and A3 does not read it)
    gemma_mode: bool = False,
    dst_type: int = 2,
) -> Tensor:
    if gemma_mode:
        raise NotImplementedError("RmsNormQuant: gemma_mode has no host kernel")
    return rms_norm_quant(x, gamma, beta, scale, offset, epsilon, element_destination(dst_type))


def rms_norm_quant_v2(
    x: Tensor,
    gamma: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    beta: Tensor | None,
    epsilon: float,
    div_mode: bool,
    destination: Destination,
) -> tuple[Tensor, Tensor]:
    """``(y, rstd)``; rstd is empty, as on the device for a tensor that needs no gradient."""
    normed = normalise(x.float(), gamma.reshape(-1), None if beta is None else beta.reshape(-1), epsilon)
    y = affine(normed, scale, offset, destination, divide=div_mode)
    return y, x.new_empty((0,), dtype=torch.float32)


@kernel("RmsNormQuantV2", flops=10, packs=True, chips=(ASCEND_950,))
def rms_norm_quant_v2_node(
    x: Tensor,
    gamma: Tensor,
    scales1: Tensor,
    scales2: Tensor | None = None,
    zero_points1: Tensor | None = None,
    zero_points2: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    epsilon: float = 1e-6,
    div_mode: bool = True,
    dst_type: int = INT8.ge_attr,
) -> tuple[Tensor, Tensor]:
    """Without a second scale y2 is empty."""
    destination = element_destination(dst_type)
    y1, _ = rms_norm_quant_v2(x, gamma, scales1, zero_points1, beta, epsilon, div_mode, destination)
    if scales2 is None:
        return y1, y1.new_empty((0,))
    return y1, rms_norm_quant_v2(x, gamma, scales2, zero_points2, beta, epsilon, div_mode, destination)[0]


@kernel("RmsNormQuantV3", flops=10, packs=True, chips=(ASCEND_950,))
def rms_norm_quant_v3_node(
    x: Tensor,
    gamma: Tensor,
    scales1: Tensor,
    scales2: Tensor | None = None,
    zero_points1: Tensor | None = None,
    zero_points2: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    epsilon: float = 1e-6,
    div_mode: bool = True,
    dst_type: int = INT8.ge_attr,
    output_rstd: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    y1, y2 = rms_norm_quant_v2_node(
        x,
        gamma,
        scales1,
        scales2,
        zero_points1,
        zero_points2,
        beta,
        epsilon=epsilon,
        div_mode=div_mode,
        dst_type=dst_type,
    )
    rstd = reciprocal_rms(x.float(), 1, epsilon) if output_rstd else x.new_empty((0,), dtype=torch.float32)
    return y1, y2, rstd

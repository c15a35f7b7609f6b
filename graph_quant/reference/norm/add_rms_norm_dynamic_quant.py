"""npu_add_rms_norm_dynamic_quant: residual addition, RMS norm, and one or two dynamic quantisations, in float32.

With v the norm (plus beta), times the smooth scale if given, and M the largest integer: ``y = sat(rint(v *
(M / absmax)))`` and ``scale = 1 / (M / absmax)``, both divisions rounded. Rows of zeros give y = 0 and scale 0.

On Ascend 950 ``scale = absmax * (1 / M)`` and ``y = sat(round(v / scale))``, also for float8 and HiFloat8.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant import chip
from graph_quant.chip import A2_A3_950
from graph_quant.destination import Destination, element_destination
from graph_quant.ge import kernel
from graph_quant.reference.norm.add_rms_norm import require_rows
from graph_quant.reference.norm.rms import normalise
from graph_quant.reference.rounding import store
from torch import Tensor


def add_rms_norm_dynamic_quant(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    smooth_scale1: Tensor | None,
    smooth_scale2: Tensor | None,
    beta: Tensor | None,
    epsilon: float,
    outputs: tuple[bool, bool],
    destination: Destination,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """``(y1, y2, x1 + x2, scale1, scale2)``; results that ``outputs`` excludes are a scalar zero."""
    wide = x1.float() + x2.float()
    normed = normalise(wide, gamma, beta, epsilon)
    pairs = [
        _quantise(normed, smooth, destination) if wanted else _scalar_zeros(normed, destination)
        for wanted, smooth in zip(outputs, (smooth_scale1, smooth_scale2), strict=True)
    ]
    return pairs[0][0], pairs[1][0], wide.to(x1.dtype), pairs[0][1], pairs[1][1]


def _quantise(values: Tensor, smooth: Tensor | None, destination: Destination) -> tuple[Tensor, Tensor]:
    if smooth is not None:
        values = values * smooth.float()
    largest = values.abs().amax(-1, keepdim=True)
    top = torch.full_like(largest, float(destination.high))
    if chip.is_950():
        scale = largest * top.reciprocal()
        return store(values / scale, destination), scale.squeeze(-1)
    multiplier = top / largest
    return store(values * multiplier, destination), multiplier.reciprocal().squeeze(-1)


def _scalar_zeros(values: Tensor, destination: Destination) -> tuple[Tensor, Tensor]:
    return values.new_zeros((), dtype=destination.storage), values.new_zeros(())


@kernel("AddRmsNormDynamicQuant", flops=12, packs=True, chips=A2_A3_950)
def add_rms_norm_dynamic_quant_node(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    smooth_scale1: Tensor | None = None,
    smooth_scale2: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    epsilon: float = 1e-6,
    output_mask: Sequence[bool] = (),
    dst_type: int = 2,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Without a mask y2 is computed if both smooth scales are given."""
    require_rows("AddRmsNormDynamicQuant", x1)
    both = smooth_scale1 is not None and smooth_scale2 is not None
    outputs = (bool(output_mask[0]), bool(output_mask[1])) if output_mask else (True, both)
    destination = element_destination(dst_type)
    return add_rms_norm_dynamic_quant(x1, x2, gamma, smooth_scale1, smooth_scale2, beta, epsilon, outputs, destination)

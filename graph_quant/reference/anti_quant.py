"""npu_anti_quant: back from integers to numbers, ``(x + offset) * scale``.

Sum and product are float32, each rounded; the product is rounded once more, half to even, to the result's
dtype. What float16 cannot hold becomes infinite.
"""

from __future__ import annotations

import torch
from graph_quant.destination import FLOAT16, Destination
from graph_quant.reference.dequantise import elements


def anti_quant(
    x: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor | None = None, output: Destination = FLOAT16
) -> torch.Tensor:
    """The numbers that int8 ``x``, or int32 that hold int4, stand for."""
    values = elements(x)
    if offset is not None:
        values = values + offset.float()
    return (values * scale.float()).to(output.storage).contiguous()

"""npu_anti_quant: dequantisation, ``(x + offset) * scale``.

Sum and product are float32, each rounded; the product is rounded once more, half to even, to the result's
dtype. Values beyond the range of float16 become infinite.
"""

from __future__ import annotations

import torch
from graph_quant.destination import BFLOAT16, FLOAT16, Destination
from graph_quant.ge import kernel
from graph_quant.reference.dequantise import elements


def anti_quant(
    x: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor | None = None, dst_type: Destination = FLOAT16
) -> torch.Tensor:
    """Convert integers back to floats, as npu_anti_quant does: ``(x + offset) * scale``.

    Args:
        x: int8, or int32 that holds packed int4.
        scale: One scale, or one for each element of the last dimension.
        offset: Offsets of the same shape, or None.
        dst_type: FLOAT16 or BFLOAT16 of ``graph_quant.destination``.

    Returns:
        A contiguous tensor of the destination's dtype.
    """
    values = elements(x)
    if offset is not None:
        values = values + offset.float()
    return (values * scale.float()).to(dst_type.storage).contiguous()


_OUTPUTS = {output.ge_attr: output for output in (FLOAT16, BFLOAT16)}


@kernel("AscendAntiQuantV2", flops=2, exact=True, same=("scale", "offset"))
def anti_quant_node(
    x: torch.Tensor,
    scale: torch.Tensor,
    offset: torch.Tensor | None = None,
    *,
    dst_type: int = 1,
    sqrt_mode: bool = False,
) -> torch.Tensor:
    """Compute the node; int4 elements arrive as int8. ``sqrt_mode`` would multiply by the scale twice."""
    if sqrt_mode:
        raise NotImplementedError("AscendAntiQuantV2: sqrt_mode=True has no host kernel")
    if dst_type not in _OUTPUTS:
        raise TypeError(f"AscendAntiQuantV2: dst_type must be 1 (float16) or 27 (bfloat16), got {dst_type}")
    return anti_quant(x, scale, offset, _OUTPUTS[dst_type])

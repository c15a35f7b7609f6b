"""npu_rotate_quant: rows multiplied block by block by a rotation matrix, then quantised with a scale per row.

A row is divided into blocks as long as the matrix is wide; each is multiplied by the matrix, summed in float32 and
rounded to x's dtype. With m the largest magnitude of a row and t the largest integer, 127 or 7, elements are multiplied
by ``t / m`` and rounded half to even, whatever round_mode is; the scale is ``m * (1 / t)``.
"""

from __future__ import annotations

import torch
from graph_quant.destination import INT4_ELEMENTS, INT8, Destination, element_destination
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.rounding import store
from torch import Tensor


def rotate_quant(x: Tensor, rotation: Tensor, destination: Destination) -> tuple[Tensor, Tensor]:
    """The integers, and the scale of each row."""
    blocks = x.reshape(x.size(0), -1, rotation.size(0)).float()
    rotated = torch.matmul(blocks, rotation.float()).to(x.dtype).float().reshape(x.shape)
    largest = rotated.abs().amax(1)
    top = torch.full((), float(destination.high), dtype=torch.float32, device=x.device)
    return store(rotated * (top / largest).unsqueeze(1), destination), largest * (1 / top)


@kernel("RotateQuant", flops=CONTRACTION, exact=True, packs=True)
def rotate_quant_node(
    x: Tensor,
    rotation: Tensor,
    alpha: Tensor | None = None,
    *,
    y_dtype: int = INT8.ge_attr,
    axis: int = -1,
    round_mode: str = "rint",  # noqa: ARG001 (the kernel does not read it)
    scale_alg: int = 0,
    dst_type_max: float = 0.0,
    transpose_y: bool = False,
) -> tuple[Tensor, Tensor]:
    """Compute the node; int4 is not packed."""
    destination = element_destination(y_dtype)
    if destination not in (INT8, INT4_ELEMENTS) or alpha is not None or axis not in (-1, 1):
        raise NotImplementedError("RotateQuant: only int8 and int4 of rows have a host kernel")
    if scale_alg or dst_type_max or transpose_y:
        raise NotImplementedError("RotateQuant: scale_alg, dst_type_max and transpose_y have no host kernel")
    return rotate_quant(x, rotation, destination)

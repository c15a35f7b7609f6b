"""Elements of a stored quantised tensor as float32, the common first step of every dequantisation."""

from __future__ import annotations

import torch
from graph_quant import int4


def elements(stored: torch.Tensor, *, packed: bool | None = None) -> torch.Tensor:
    """Float32 elements of ``stored``. int32 is taken for packed int4 unless ``packed`` says otherwise."""
    if packed is None:
        packed = stored.dtype == torch.int32
    return (int4.unpack(stored) if packed else stored).float()

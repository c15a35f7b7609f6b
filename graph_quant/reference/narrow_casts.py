"""Conversion of float32 to float8 or four bits as one opaque step, for code that Inductor would compile wrongly.

Inductor's own code for float32 is wrong in the last block of a row if that is short.
"""

from __future__ import annotations

import torch
from graph_quant.narrow_floats import FORMATS, encode
from graph_quant.reference.opaque import opaque
from torch import Tensor


def _infer_bytes(values: Tensor, _name: str, _mode: str) -> Tensor:
    return values.new_empty(values.shape, dtype=torch.uint8)


@opaque(_infer_bytes)
def encode_in_bytes(values: Tensor, name: str, mode: str) -> Tensor:
    """The codes of ``narrow_floats.encode`` as bytes, for the format called ``name``."""
    target = next(candidate for candidate in FORMATS if candidate.name == name)
    return encode(values, target, mode).view(torch.uint8)

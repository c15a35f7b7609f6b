"""npu_dtype_cast: a tensor in another dtype, narrow floats of Ascend 950 among them."""

from __future__ import annotations

import torch
from graph_quant.narrow_floats import FORMATS, decode, decode_hif8, pack_pairs, unpack_pairs
from graph_quant.reference.narrow_casts import cast_in_bytes
from torch import Tensor


def cast(x: Tensor, to: torch.dtype, target: str | None = None, source: str | None = None) -> Tensor:
    """``x`` in the dtype ``to``: floats round half to even, and are truncated to integers.

    Args:
        x: The values.
        to: The dtype of the result, as torch stores it.
        target: The narrow float that the result holds; two of four bits share a byte.
        source: The narrow float that the bytes of ``x`` hold.

    Returns:
        The result.
    """
    if source is not None:
        return _restored(x, source).to(to)
    if target is None:
        return x.to(to)
    codes = cast_in_bytes(x, target)
    return pack_pairs(codes) if target.startswith("float4") else codes.view(to)


def _restored(x: Tensor, source: str) -> Tensor:
    if source == "hifloat8":
        return decode_hif8(x)
    known = next(candidate for candidate in FORMATS if candidate.name == source)
    return x.float() if known.dtype is not None else decode(unpack_pairs(x), known)

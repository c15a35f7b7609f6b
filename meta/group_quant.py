"""npu_group_quant: what may be passed, and what comes back.

x is a matrix (S, H) and scale one row (E, H) for each of E groups, E at least one. group_index, of length
E, holds where each group ends; offset is one number of scale's dtype. The result is int8 of x's shape, or
int32 (S, H/8).
"""

from __future__ import annotations

import torch
from graph_quant.destination import INT4, INT8, Destination
from graph_quant.meta.rules import FLOATS, Rules, empty

OPERATOR = "npu_group_quant"
RULES = Rules(OPERATOR)
INDEX_DTYPES = (torch.int32, torch.int64)


def check(
    x: torch.Tensor,
    scale: torch.Tensor,
    group_index: torch.Tensor,
    *,
    offset: torch.Tensor | None = None,
    dst_dtype: torch.dtype | int | None = None,
) -> Destination:
    """The destination of a call that the documents allow; any other call is refused."""
    RULES.one_device(x=x, scale=scale, group_index=group_index, offset=offset)
    RULES.dtype("x", x, FLOATS)
    RULES.rank("x", x, 2)
    RULES.dtype("scale", scale, FLOATS)
    RULES.rank("scale", scale, 2)
    RULES.at_least("scale.size(0)", scale.size(0), 1)
    RULES.equal("scale.size(1)", scale.size(1), "x.size(1)", x.size(1))
    RULES.dtype("group_index", group_index, INDEX_DTYPES)
    RULES.rank("group_index", group_index, 1)
    RULES.equal("group_index.size(0)", group_index.size(0), "scale.size(0)", scale.size(0))
    if offset is not None:
        RULES.dtype("offset", offset, (scale.dtype,), why=", the dtype of scale")
        RULES.require(offset.numel() == 1, lambda: f"offset must have one element, got {list(offset.shape)}")
    destination = RULES.destination("dst_dtype", dst_dtype, (INT8, INT4))
    RULES.packable("x.size(1)", x.size(1), destination)
    return destination


def infer(
    x: torch.Tensor,
    scale: torch.Tensor,
    group_index: torch.Tensor,
    *,
    offset: torch.Tensor | None = None,
    dst_dtype: torch.dtype | int | None = None,
) -> torch.Tensor:
    """The result of a call, without its values."""
    destination = check(x, scale, group_index, offset=offset, dst_dtype=dst_dtype)
    return empty(x, destination.stored_shape(x.shape), destination.storage)

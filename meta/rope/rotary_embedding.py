"""ATB's _npu_rotary_embedding: query and key rotated in place, by rows of a table of cosines and sines."""

from __future__ import annotations

import torch
from graph_quant.meta import atb  # noqa: F401 (it defines the operator)
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.rope.rotary_embedding import rotate
from torch import Tensor

LEAST_HEAD, WIDEST_HEAD = 16, 4096


@operator("atb::_npu_rotary_embedding", reference=rotate)
def rotary_embedding(
    rules: Rules,
    positions: Tensor,
    query: Tensor,
    key: Tensor,
    head_size: int,
    cos_sin_cache: Tensor,
    is_neox_style: bool,
) -> Plan:
    """Checks a call against the rules of the library, and returns its plan."""
    rules.dtype("positions", positions, (torch.int32, torch.int64))
    rules.dtype("cos_sin_cache", cos_sin_cache, (query.dtype, torch.float32))
    rules.rank("cos_sin_cache", cos_sin_cache, 2)
    # The wrapper reads head_size for neighbouring pairs alone: heads are as wide as the table for the library.
    name_of_width, width = "head_size", head_size
    if is_neox_style:
        name_of_width, width = "cos_sin_cache.size(1)", cos_sin_cache.size(1)
    rules.require(
        LEAST_HEAD <= width <= WIDEST_HEAD and width % 2 == 0,
        lambda: f"{name_of_width} must be even, from {LEAST_HEAD} to {WIDEST_HEAD}, got {width}",
    )
    rules.dtype("query", query, (torch.float16, torch.bfloat16))
    for name, tensor in (("query", query), ("key", key)):
        rules.dtype(name, tensor, (query.dtype,), ", the dtype of query")
        rules.rank(name, tensor, 2)
        rules.equal(f"{name}.size(0)", tensor.size(0), "the number of positions", positions.numel())
        rules.require(
            tensor.size(1) % width == 0,
            lambda name=name, tensor=tensor: (  # type: ignore[misc]
                f"{name}.size(1) must be a multiple of {name_of_width}, {width}, got {tensor.size(1)}"
            ),
        )
    rules.require(
        query.size(1) % key.size(1) == 0,
        lambda: f"query.size(1) must be a multiple of key.size(1), {key.size(1)}, got {query.size(1)}",
    )
    if not is_neox_style:
        rules.equal("cos_sin_cache.size(1)", cos_sin_cache.size(1), "head_size", head_size)
    return Plan(())

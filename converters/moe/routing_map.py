"""Routing maps in graphs: GE cannot infer the shapes of MoeTokenPermuteWithRoutingMap and its inverse.

They are decomposed into npu_moe_token_permute and npu_moe_token_unpermute, which GE supports, and sorts of the map.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.converters.decompositions import decomposes
from graph_quant.dispatcher import overload
from graph_quant.reference.moe.routing_map import first, kept_rows, permuted, unpermuted
from torch import Tensor

npu = torch.ops.npu


@decomposes(npu.npu_moe_token_permute_with_routing_map.default)
def permute(
    tokens: Tensor,
    routing_map: Tensor,
    *,
    probs: Tensor | None = None,
    num_out_tokens: int | None = None,
    drop_and_pad: bool = False,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """The decomposition of one call."""
    rows = kept_rows(routing_map, num_out_tokens, drop_and_pad)
    return permuted(tokens, routing_map, probs, rows, drop_and_pad, npu.npu_moe_token_permute.default)


@decomposes(overload("npu::_npu_moe_token_unpermute_with_routing_map"))
def unpermute(
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    restore_shape: Sequence[int],
    *,
    probs: Tensor | None = None,
    routing_map: Tensor | None = None,
    drop_and_pad: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The decomposition of one call."""
    return unpermuted(
        permuted_tokens, sorted_indices, restore_shape[0], probs, routing_map, drop_and_pad, _summed_by_node
    )


decomposes(npu.npu_moe_token_unpermute_with_routing_map.default)(first(unpermute))


def _summed_by_node(rows: Tensor, position_of: Tensor, weights: Tensor | None) -> Tensor:
    """Sum rows by a node that infers the rows of a token from its weights, which are 1 by default."""
    if weights is None:
        weights = torch.ones_like(position_of, dtype=rows.dtype)
    result: Tensor = npu.npu_moe_token_unpermute.default(rows, position_of.reshape(-1), weights)
    return result

"""aten.index_put of a vector, which turns a permutation round, becomes ScatterElements; TorchAir lowers none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.converters import UPSTREAM
from graph_quant.converters.lowering import converts, shape_of
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

_INDEX_PUT = torch.ops.aten.index_put.default


@converts(_INDEX_PUT)
def index_put(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False, meta_outputs: Any = None
) -> Any:
    """The GE nodes of one call; other forms are upstream's to refuse."""
    places = indices[0]
    is_plain = len(indices) == 1 and places is not None and places.rank == x.rank == 1 and not accumulate
    if not is_plain or places is None or places.meta.dtype not in (torch.int32, torch.int64):
        return UPSTREAM[_INDEX_PUT](x, indices, values, accumulate, meta_outputs=meta_outputs)
    return ge.ScatterElements(x, places, ge.BroadcastTo(values, shape_of(places)), axis=0)

"""npu_scatter_nd_update and its in-place form: rows of indices index the first dimensions of a tensor.

Of several updates with the same index, a device keeps the one written last; here that is the last in order.
"""

from __future__ import annotations

from graph_quant.chip import CHIPS
from graph_quant.ge import kernel
from graph_quant.reference.index_checks import checked_index
from torch import Tensor


def scatter_nd_update_(x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Writes ``updates`` into ``x`` at ``indices`` in place."""
    if updates.numel():
        columns = [
            checked_index("npu_scatter_nd_update", f"indices[..., {dim}]", column.long(), 0, x.size(dim))
            for dim, column in enumerate(indices.unbind(-1))
        ]
        x.index_put_(tuple(columns), updates)
    return x


def scatter_nd_update(x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """A copy of ``x`` with ``updates`` at ``indices``."""
    return scatter_nd_update_(x.clone(), indices, updates)


@kernel("ScatterNdUpdate", chips=CHIPS, may_alias=True, idle=("use_locking",))
def scatter_nd_update_node(var: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    return scatter_nd_update_(var, indices, updates)

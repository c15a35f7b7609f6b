"""npu_gather_sparse_index: gathers rows of input by index; its gradient is an index_add.

Rows are added in order, in the dtype of the gradient, as index_add does. A device adds in any order.
"""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor


@value_check
def check_row_indices(index: Tensor, rows: int) -> Tensor:
    """``index``; refuses values outside [0, rows)."""
    wrong = (index < 0) | (index >= rows)
    if bool(wrong.any()):
        got = int(index[wrong][0])
        raise Refusal(f"npu_gather_sparse_index: the values of index must lie in [0, {rows}), got {got}")
    return index


def gather_sparse_index(input: Tensor, index: Tensor) -> Tensor:  # noqa: A002
    """Rows in the shape of index, followed by the shape of a row."""
    flat = check_row_indices(index, input.size(0)).reshape(-1)
    return input.index_select(0, flat).reshape((*index.shape, *input.shape[1:]))


def gather_sparse_index_backward(grad: Tensor, self_sizes: Sequence[int], index: Tensor) -> Tensor:
    """The gradient of input."""
    return grad.new_zeros(tuple(self_sizes)).index_add(0, check_row_indices(index, self_sizes[0]), grad)

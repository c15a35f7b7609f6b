"""npu_gather_sparse_index: the rows of input that index names; its gradient adds rows up where they came from.

Rows are added in their order, in the gradient's dtype, as torch's index_add does; a device adds in any order.
"""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor


@value_check
def rows_named(index: Tensor, rows: int) -> Tensor:
    """``index``, refused where it names no row."""
    wrong = (index < 0) | (index >= rows)
    if bool(wrong.any()):
        got = int(index[wrong][0])
        raise Refusal(f"npu_gather_sparse_index: the values of index must lie in [0, {rows}), got {got}")
    return index


def gather_sparse_index(input: Tensor, index: Tensor) -> Tensor:  # noqa: A002
    """In the shape of index, then that of a row."""
    named = rows_named(index, input.size(0)).reshape(-1)
    return input.index_select(0, named).reshape((*index.shape, *input.shape[1:]))


def gather_sparse_index_backward(grad: Tensor, self_sizes: Sequence[int], index: Tensor) -> Tensor:
    """The gradient of input."""
    return grad.new_zeros(tuple(self_sizes)).index_add(0, rows_named(index, self_sizes[0]), grad)

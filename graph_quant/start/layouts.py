"""The memory layout of a product's operands in eager mode: a GE graph has no strides, and they decide CPU sums."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.fx import Node

from ..releases.alternatives import guard_or_false

# The positions of the operands among the arguments.
OPERANDS = {
    "aten::mm": (0, 1),
    "aten::bmm": (0, 1),
    "aten::addmm": (1, 2),
    "aten::_grouped_mm": (0, 1),
    "npu::npu_grouped_matmul": (0, 1),
}
# The nodes that multiply.
NODES = frozenset(
    {"GroupedMatmul"} | {f"{kind}{version}" for kind in ("MatMul", "BatchMatMul") for version in ("", "V2", "V3")}
)


def column_major_operands(node: Any) -> tuple[bool, ...] | None:
    """Return, for each operand of a traced product, whether it is column-major; None for lists of operands."""
    positions = OPERANDS[node.target.name()]
    arguments = [node.args[position] if position < len(node.args) else None for position in positions]
    singles = [value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value for value in arguments]
    operands = [value for value in singles if isinstance(value, Node)]
    return tuple(_is_column_major(node.meta["val"]) for node in operands) if len(operands) == len(positions) else None


def _is_column_major(x: Tensor) -> bool:
    """Whether BLAS treats a matrix as transposed; a single row with strides of 1 is a transposed column."""
    (rows, columns), (down, across) = x.shape[-2:], x.stride()[-2:]
    is_transposed_column = guard_or_false(rows == 1) and not guard_or_false(columns == 1)
    return guard_or_false(down == 1) and (is_transposed_column or not guard_or_false(across == 1))

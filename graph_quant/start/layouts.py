"""How the factors of a product lie in eager mode: a GE graph has no strides, and the CPU's sums follow them."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import guard_or_false

# Where the factors stand among the arguments.
FACTORS = {
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


def factors_in_columns(node: Any) -> tuple[bool, ...] | None:
    """Of each factor of a traced product, whether it lies in columns; None where there are several at once."""
    places = FACTORS[node.target.name()]
    given = [node.args[place] if place < len(node.args) else None for place in places]
    alone = [each[0] if isinstance(each, (list, tuple)) and len(each) == 1 else each for each in given]
    factors = [each for each in alone if isinstance(each, Node)]
    return tuple(_in_columns(each.meta["val"]) for each in factors) if len(factors) == len(places) else None


def _in_columns(x: Tensor) -> bool:
    """As a BLAS sees it: a single row with strides of 1 is a column that was turned."""
    (rows, columns), (down, across) = x.shape[-2:], x.stride()[-2:]
    is_turned = guard_or_false(rows == 1) and not guard_or_false(columns == 1)
    return guard_or_false(down == 1) and (is_turned or not guard_or_false(across == 1))

"""How the factors of a product lie in eager mode: a GE graph has no strides, and the CPU's sums follow them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import guard_or_false

aten = torch.ops.aten
# Where the factors stand among the arguments.
FACTORS = {aten.mm.default: (0, 1), aten.bmm.default: (0, 1), aten.addmm.default: (1, 2)}


def factors_in_columns(node: Any) -> tuple[bool, ...]:
    """Of each factor of a traced product, whether it lies in columns."""
    return tuple(_in_columns(node.args[place].meta["val"]) for place in FACTORS[node.target])


def _in_columns(x: Tensor) -> bool:
    """As a BLAS sees it: a single row with strides of 1 is a column that was turned."""
    (rows, columns), (down, across) = x.shape[-2:], x.stride()[-2:]
    is_turned = guard_or_false(rows == 1) and not guard_or_false(columns == 1)
    return guard_or_false(down == 1) and (is_turned or not guard_or_false(across == 1))

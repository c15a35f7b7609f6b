"""The stand-in for ``my_ops._C``: schemas from a file, a record, and the functions that the module has."""

from pathlib import Path

import torch
from graph_quant.extension import Plan, Result, Rules, define_operators, operator
from torch import Tensor

# The functions that `my_ops._C` has beside its operators.
__all__ = ["version"]

# 1. The schemas. An operator without a record, here sort_tiles, is refused by name when it is called.
define_operators(Path(__file__).with_name("schemas.txt"))


# 2. The reference: it writes arguments in place, as the kernel does.
def add_scaled(total: Tensor, x: Tensor, scale: float) -> Tensor:
    """Round the product, then the sum."""
    total.add_((x.float() * scale).to(x.dtype))
    return total.abs().amax(-1).float()


# 3. The record: what may be passed, and what comes back.
@operator("my_ops::add_scaled_", reference=add_scaled)
def rules_of_add_scaled(rules: Rules, total: Tensor, x: Tensor, scale: float) -> Plan:  # noqa: ARG001
    """Refuse what the kernel does not take."""
    rules.rank("total", total, 2)
    rules.dtype("total", total, (torch.float16, torch.bfloat16))
    rules.like("x", x, "total", total)
    return Plan((Result((total.size(0),), torch.float32),))


def version() -> str:
    """Return a version that shows that this is not the compiled extension."""
    return "0.1 (host)"

"""The lowering: which GE nodes a call becomes. This module is imported with TorchAir."""

from typing import Any

import torchair
from graph_quant.extension import lowers


@lowers("custom_operator::row_quant")
def lower_row_quant(x: Any, scale: Any, bound: int) -> Any:
    """Emit one RowQuant node; x and scale are GE tensors."""
    return torchair.ge.custom_op(
        "RowQuant",
        inputs={"x": x, "scale": scale},
        attrs={"bound": torchair.ge.attr.Int(bound)},
        outputs=["y"],
    )

"""Narrow floats that torch carries in bytes, as GE tensors of their dtype."""

from __future__ import annotations

from graph_quant.ge import FOUR_BITS, TO_ATTRIBUTE, TO_DESC, stored_dtype
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

E8M0 = "float8_e8m0"


def viewed_as(x: Tensor, name: str, rank: int) -> Tensor:
    """The bits of ``x`` as GE's dtype ``name``; each byte becomes two float4 of its last dimension."""
    if x.desc.dtype == TO_DESC[name]:
        return x
    elements = ge.Bitcast(x, type=TO_ATTRIBUTE[name])
    elements.desc.dtype = TO_DESC[name]
    if stored_dtype(name) not in FOUR_BITS:
        return elements
    flat = ge.Reshape(elements, [0] * (rank - 1) + [-1])
    flat.desc.dtype = TO_DESC[name]
    return flat

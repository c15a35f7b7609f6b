"""npu_convert_weight_to_int4pack: eight int4 to an int32, the first in the lowest four bits."""

from __future__ import annotations

from graph_quant import int4
from graph_quant.destination import INT4
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor


def convert_weight_to_int4pack(weight: Tensor) -> Tensor:
    """``weight`` packed along its last dimension, which becomes an eighth."""
    return int4.pack(elements("npu_convert_weight_to_int4pack", weight))


@value_check
def elements(op: str, weight: Tensor) -> Tensor:
    """``weight``, refused where a value does not fit int4; the device would keep its lowest four bits."""
    outside = ((weight < INT4.low) | (weight > INT4.high)).nonzero()
    if outside.numel():
        index = outside[0].tolist()
        value = int(weight[tuple(index)])
        raise Refusal(f"{op}: weight{index} must be from {INT4.low} to {INT4.high}, got {value}")
    return weight

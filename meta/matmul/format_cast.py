"""npu_format_cast: a tensor of the same shape, dtype and values, laid out for the device."""

from __future__ import annotations

from graph_quant.chip import A2_A3_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from torch import Tensor


@operator("npu_format_cast", chips=A2_A3_950)
def format_cast(
    _rules: Rules, x: Tensor, _acl_format: int, _customize_dtype: int | None, _input_dtype: int | None
) -> Plan:
    """Any tensor may be cast to any format."""
    return Plan((Result(tuple(x.shape), x.dtype),))

"""npu_gelu_quant: argument rules and results.

input is float32, float16 or bfloat16, of at most eight dimensions, and of two or more for dynamic quantisation.
input_scale is float32 or has the dtype of input, with one element or one per column; static quantisation needs it and
takes an input_offset of the same form. The second result, the scale of each row, is None for static quantisation.
"""

from __future__ import annotations

import torch
from graph_quant.destination import INT8, describe, find
from graph_quant.meta.activation.gelu import APPROXIMATIONS
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.activation.gelu_quant import DYNAMIC, STATIC
from graph_quant.reference.activation.gelu_quant import gelu_quant as reference
from torch import Tensor


@operator("npu_gelu_quant", reference=reference)
def gelu_quant(
    rules: Rules,
    x: Tensor,
    input_scale: Tensor | None,
    input_offset: Tensor | None,
    approximate: str,
    quant_mode: str,
    dst_type: int | None,
    round_mode: str,
) -> Plan:
    """Check a call against what the device supports and return its plan."""
    rules.one_of("approximate", approximate, APPROXIMATIONS)
    rules.one_of("quant_mode", quant_mode, (STATIC, DYNAMIC))
    rules.require(
        find(dst_type) is INT8, lambda: f"dst_type must be None or torch.int8 on A2 and A3, got {describe(dst_type)}"
    )
    rules.one_of("round_mode", round_mode, ("rint",), " on A2 and A3")
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 2 if quant_mode == DYNAMIC else 1, 8, why=f" for {quant_mode} quantisation")
    rules.not_empty("input", x)
    y = Result(tuple(x.shape), torch.int8)
    if input_scale is None:
        rules.require(quant_mode == DYNAMIC, lambda: "input_scale must be given for static quantisation, got None")
    else:
        _check_parameter(rules, "input_scale", input_scale, x, (x.dtype, torch.float32))
    if quant_mode == DYNAMIC:
        rules.require(input_offset is None, lambda: "input_offset is for static quantisation, leave it None")
        return Plan((y, Result(tuple(x.shape[:-1]), torch.float32)))
    if input_offset is not None:
        assert input_scale is not None
        _check_parameter(rules, "input_offset", input_offset, x, (input_scale.dtype,))
        rules.equal("input_offset.size(0)", input_offset.size(0), "input_scale.size(0)", input_scale.size(0))
    return Plan((y, None))


def _check_parameter(rules: Rules, name: str, tensor: Tensor, x: Tensor, dtypes: tuple[torch.dtype, ...]) -> None:
    rules.dtype(name, tensor, tuple(dict.fromkeys(dtypes)), f" for input {x.dtype}")
    rules.rank(name, tensor, 1)
    rules.one_or(f"{name}.size(0)", tensor.size(0), "input.size(-1)", x.size(-1))

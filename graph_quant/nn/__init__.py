"""Quantised modules, thin over the operators, and ``quantize_``, which puts them into a model.

========================  =====================================================================================
module                    what runs for each call
========================  =====================================================================================
``DynamicW8A8Linear``     npu_dynamic_quant by token, npu_quant_matmul
``StaticW8A8Linear``      npu_quantize, npu_trans_quant_param (for float16), npu_quant_matmul
``W4A4Linear``            npu_dynamic_quant to int4 by token, npu_quant_matmul of int4
``GroupedW8A8Linear``     npu_group_quant, then npu_quant_matmul for each group
``GroupedW8A8Experts``    a mixture of experts: rows sorted by expert, two grouped linears around the activation
========================  =====================================================================================

A recipe says which of them replaces what::

    quantize_(model, DynamicW8A8(), lambda module, name: "lm_head" not in name)

and recipes with static scales take what ``observe`` saw::

    with observe(model) as seen:
        model(calibration_prompts)
    quantize_(model, StaticW8A8(smooth=0.5), observations=seen)
"""

from graph_quant.nn.dynamic_w8a8 import DynamicW8A8Linear
from graph_quant.nn.experts import GroupedW8A8Experts
from graph_quant.nn.grouped_w8a8 import GroupedW8A8Linear
from graph_quant.nn.observe import Observations, Range, observe
from graph_quant.nn.quantize import Replaced, quantize_
from graph_quant.nn.recipes import W4A4, DynamicW8A8, GroupedW8A8, Recipe, StaticW8A8
from graph_quant.nn.static_w8a8 import StaticW8A8Linear
from graph_quant.nn.w4a4 import W4A4Linear

__all__ = [
    "W4A4",
    "DynamicW8A8",
    "DynamicW8A8Linear",
    "GroupedW8A8",
    "GroupedW8A8Experts",
    "GroupedW8A8Linear",
    "Observations",
    "Range",
    "Recipe",
    "Replaced",
    "StaticW8A8",
    "StaticW8A8Linear",
    "W4A4Linear",
    "observe",
    "quantize_",
]

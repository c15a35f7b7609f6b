"""Quantised modules, thin wrappers of the npu operators, and ``quantize_``, which puts them into a model.

====================================  ===============================================================================
module                                operators of a call
====================================  ===============================================================================
``DynamicW8A8Linear``                 npu_dynamic_quant by token, npu_quant_matmul
``StaticW8A8Linear``                  npu_quantize, npu_trans_quant_param (for float16), npu_quant_matmul
``W4A8Linear``                        npu_dynamic_quant by token, npu_grouped_matmul of int8 and int4
``W4A4Linear``                        npu_dynamic_quant to int4 by token, npu_quant_matmul of int4
``MxLinear``                          npu_dynamic_mx_quant, npu_quant_matmul (Ascend 950)
``BlockFP8Linear``                    npu_dynamic_block_quant, npu_quant_matmul (Ascend 950)
``HiF8Linear``                        npu_dynamic_quant by token, npu_quant_matmul (Ascend 950)
``W8A16Linear``, ``W4A16Linear``      npu_weight_quant_batchmatmul
``DynamicW8A8Experts``                npu_moe_init_routing_v2, npu_grouped_matmul, npu_dequant_swiglu_quant,
                                      npu_grouped_matmul, npu_moe_finalize_routing
``StaticW8A8Experts``                 npu_quantize, then the same
``W4A8Experts``                       the same with npu_swiglu and npu_dynamic_quant between the products
``W8A16Experts``, ``W4A16Experts``    the same with npu_swiglu between the products
====================================  ===============================================================================

A recipe chooses the modules::

    quantize_(model, DynamicW8A8(), lambda module, name: "lm_head" not in name)

Recipes with static scales need the ranges that ``observe`` records::

    with observe(model) as seen:
        model(calibration_prompts)
    quantize_(model, StaticW8A8(smooth=0.5), observations=seen)

``parallelize_`` distributes the modules of a quantised model over ranks.
"""

from graph_quant.nn.accuracy import Comparison, LayerError, compare
from graph_quant.nn.checkpoints.load import Loaded, load_quantised
from graph_quant.nn.checkpoints.save import save_quantised
from graph_quant.nn.checkpoints.stored import CheckpointError
from graph_quant.nn.dynamic_w8a8 import DynamicW8A8Linear
from graph_quant.nn.experts.base import QuantisedExperts
from graph_quant.nn.experts.dynamic_w8a8 import DynamicW8A8Experts
from graph_quant.nn.experts.static_w8a8 import StaticW8A8Experts
from graph_quant.nn.experts.w4a8 import W4A8Experts
from graph_quant.nn.experts.weight_only import W4A16Experts, W8A16Experts
from graph_quant.nn.merge import merge_linears_
from graph_quant.nn.mixed import Mixed
from graph_quant.nn.narrow_linears import BlockFP8Linear, HiF8Linear, MxLinear
from graph_quant.nn.observe import Observations, Range, observe
from graph_quant.nn.parallel.parallelize import parallelize_
from graph_quant.nn.pt2e import convert_pt2e_
from graph_quant.nn.quantize import Replaced, quantize_
from graph_quant.nn.recipes import (
    MXFP4,
    MXFP8,
    W4A4,
    W4A8,
    W4A16,
    W8A16,
    BlockFP8,
    DynamicW8A8,
    HiF8,
    Recipe,
    StaticW8A8,
)
from graph_quant.nn.search import Budget, SearchResult, search
from graph_quant.nn.static_w8a8 import StaticW8A8Linear
from graph_quant.nn.torchao import convert_torchao_
from graph_quant.nn.w4a4 import W4A4Linear
from graph_quant.nn.w4a8 import W4A8Linear
from graph_quant.nn.weight_only import W4A16Linear, W8A16Linear

__all__ = [
    "MXFP4",
    "MXFP8",
    "W4A4",
    "W4A8",
    "W4A16",
    "W8A16",
    "BlockFP8",
    "BlockFP8Linear",
    "Budget",
    "CheckpointError",
    "Comparison",
    "DynamicW8A8",
    "DynamicW8A8Experts",
    "DynamicW8A8Linear",
    "HiF8",
    "HiF8Linear",
    "LayerError",
    "Loaded",
    "Mixed",
    "MxLinear",
    "Observations",
    "QuantisedExperts",
    "Range",
    "Recipe",
    "Replaced",
    "SearchResult",
    "StaticW8A8",
    "StaticW8A8Experts",
    "StaticW8A8Linear",
    "W4A4Linear",
    "W4A8Experts",
    "W4A8Linear",
    "W4A16Experts",
    "W4A16Linear",
    "W8A16Experts",
    "W8A16Linear",
    "compare",
    "convert_pt2e_",
    "convert_torchao_",
    "load_quantised",
    "merge_linears_",
    "observe",
    "parallelize_",
    "quantize_",
    "save_quantised",
    "search",
]

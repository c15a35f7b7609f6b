"""How each quantisation operator becomes GE nodes, through TorchAir's own registry."""

from __future__ import annotations

_registered = False


def register() -> None:
    """Replaces TorchAir's converters. TorchAir must be imported already; calling this again changes nothing."""
    global _registered
    if _registered:
        return
    _registered = True
    import torch
    from torchair._ge_concrete_graph.fx2ge_converter import register_fx_node_ge_converter

    # TorchAir loads its own converters when it meets the first operator, which would replace the ones here.
    from torchair._ge_concrete_graph.ge_converter import custom  # noqa: F401

    from graph_quant.converters import (
        dynamic_quant,
        dynamic_quant_asymmetric,
        group_quant,
        quant_matmul,
        quantize,
        trans_quant_param,
    )

    npu = torch.ops.npu
    register_fx_node_ge_converter(npu.npu_group_quant.default)(group_quant.convert)
    register_fx_node_ge_converter(npu.npu_quantize.default)(quantize.convert)
    register_fx_node_ge_converter(npu.npu_trans_quant_param.default)(trans_quant_param.convert)
    register_fx_node_ge_converter(npu.npu_dynamic_quant_asymmetric.default)(dynamic_quant_asymmetric.convert)
    register_fx_node_ge_converter(npu.npu_dynamic_quant.default)(dynamic_quant.convert)
    register_fx_node_ge_converter(npu.npu_quant_matmul.default)(quant_matmul.convert)

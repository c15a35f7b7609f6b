"""How each quantisation operator becomes GE nodes, through TorchAir's own registry.

Besides them stand the ATen operators that quantised models need and TorchAir cannot lower.
"""

from __future__ import annotations

_registered = False


def register() -> None:
    """Replaces TorchAir's converters. TorchAir must be imported already; calling this again changes nothing."""
    global _registered
    if _registered:
        return
    _registered = True
    import torch
    from graph_quant.converters import (
        dynamic_quant,
        dynamic_quant_asymmetric,
        format_cast,
        group_quant,
        index_copy,
        quant_matmul,
        quantize,
        trans_quant_param,
    )
    from graph_quant.meta.chip import or_upstream
    from torchair._ge_concrete_graph.fx2ge_converter import register_fx_node_ge_converter

    # TorchAir loads its own converters when it meets the first operator, which would replace the ones here.
    from torchair._ge_concrete_graph.ge_converter import custom  # noqa: F401

    aten, npu = torch.ops.aten, torch.ops.npu
    for operator, module in (
        (npu.npu_group_quant, group_quant),
        (npu.npu_quantize, quantize),
        (npu.npu_trans_quant_param, trans_quant_param),
        (npu.npu_dynamic_quant_asymmetric, dynamic_quant_asymmetric),
        (npu.npu_dynamic_quant, dynamic_quant),
        (npu.npu_quant_matmul, quant_matmul),
        (npu.npu_format_cast, format_cast),
        (aten.index_copy, index_copy),
    ):
        upstream = getattr(operator.default, "_ge_converter", None)
        register_fx_node_ge_converter(operator.default)(or_upstream(module.convert, upstream))

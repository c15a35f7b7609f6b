"""npu_trans_quant_param becomes TransQuantParamV2, whose result is UINT64 in GE and int64 in torch.

npu_quant_matmul takes it as UINT64. A graph output, or any other operator, gets it through a Bitcast to INT64.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, cast

import torch
from graph_quant.converters.lowering import PROTO_FLOAT, PROTO_UINT64, lowers, run_time_shape, shape_of, spec
from graph_quant.destination import INT32
from graph_quant.meta.quant.trans_quant_param import QuantParamPlan, trans_quant_param
from graph_quant.meta.rules import statically_known_true
from graph_quant.quant_params import TRUNCATE
from torchair._ge_concrete_graph import ge_apis as ge
from torchair._ge_concrete_graph.fx2ge_converter import GeConcreteGraph
from torchair.ge._ge_graph import DataType, Tensor

NODE = "TransQuantParamV2"


@lowers("npu_trans_quant_param")
def lower(plan: QuantParamPlan, scale: Tensor, offset: Tensor | None) -> Tensor:
    """The GE nodes of one call."""
    params = _packed(plan, scale, offset)
    if _only_scales_matmuls(_node_being_lowered()):
        return params
    return ge.Bitcast(params, type=DataType.DT_INT64)


def quant_params(scale: Tensor, offset: Tensor | None) -> Tensor:
    """The UINT64 parameters that a matmul reads instead of a float scale."""
    plan = trans_quant_param.plan((spec(scale), spec(offset), TRUNCATE))
    return _packed(cast(QuantParamPlan, plan), scale, offset)


def _packed(plan: QuantParamPlan, scale: Tensor, offset: Tensor | None) -> Tensor:
    """TransQuantParamV2 takes the length of scale for its result's, so scale is widened."""
    if plan.widen_scale:
        scale = ge.BroadcastTo(scale, _longer(scale, offset))
        scale.desc.dtype = PROTO_FLOAT
    params = ge.TransQuantParamV2(scale, offset, round_mode=plan.mode)
    params.desc.dtype = PROTO_UINT64
    return params


def _longer(scale: Tensor, offset: Tensor) -> Any:
    if statically_known_true(scale.meta.size(0) == 1):
        return shape_of(offset)
    longer = ge.Maximum(run_time_shape(scale), run_time_shape(offset))
    longer.desc.dtype = INT32.ge_desc
    return longer


def _node_being_lowered() -> torch.fx.Node | None:
    """The FX node that TorchAir is lowering, read from TorchAir's context: converters do not get it."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        graph = frame.f_locals.get("self")
        if isinstance(graph, GeConcreteGraph):
            return getattr(graph._converter_ctx, "node", None)
        frame = frame.f_back
    return None


def _only_scales_matmuls(node: torch.fx.Node | None) -> bool:
    if node is None or not node.users:
        return False
    matmul = torch.ops.npu.npu_quant_matmul.default
    return all(user.target is matmul and _is_its_scale(node, user) for user in node.users)


def _is_its_scale(node: torch.fx.Node, matmul: torch.fx.Node) -> bool:
    given_as = [*enumerate(matmul.args), *matmul.kwargs.items()]
    return [index for index, value in given_as if value is node] in ([2], ["scale"])

"""npu_moe_gating_top_k_backward in graphs, which GE has no node for."""

from __future__ import annotations

from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import by_name
from graph_quant.reference.moe.gating_top_k_backward import of_logits

decomposes("npu::npu_moe_gating_top_k_backward")(by_name("npu_moe_gating_top_k_backward", of_logits))

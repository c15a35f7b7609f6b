"""The products of LoRA adapters: sgl-kernel-npu has vllm-ascend's operators of these names."""

from __future__ import annotations

from graph_quant.extensions.vllm_ascend import lora
from graph_quant.meta import operator

operator("npu::bgmv_shrink", reference=lora.bgmv_shrink)(lora.rules_of_bgmv_shrink)
operator("npu::bgmv_expand", reference=lora.bgmv_expand)(lora.rules_of_bgmv_expand)
operator("npu::sgmv_shrink", reference=lora.sgmv_shrink)(lora.rules_of_sgmv_shrink)
operator("npu::sgmv_expand", reference=lora.sgmv_expand)(lora.rules_of_sgmv_expand)

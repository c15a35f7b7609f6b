"""batch_matmul_transpose, which vllm-ascend took from sgl-kernel-npu."""

from __future__ import annotations

from graph_quant.extensions.vllm_ascend import matmul
from graph_quant.meta import operator

operator("npu::batch_matmul_transpose", reference=matmul.batch_matmul_transpose)(matmul.rules_of_batch_matmul_transpose)

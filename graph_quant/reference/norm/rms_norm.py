"""npu_rms_norm and npu_gemma_rms_norm: ``x * rstd * gamma``, rounded once at the end; Gemma's gamma has 1 added."""

from __future__ import annotations

from graph_quant.chip import A2_A3_950
from graph_quant.ge import kernel
from graph_quant.reference.norm.rms import reciprocal_rms
from torch import Tensor


@kernel("RmsNorm", flops=6, exact=True, chips=A2_A3_950)
def rms_norm(x: Tensor, gamma: Tensor, *, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """``(y, rstd)``: y in x's dtype, rstd float32."""
    wide = x.float()
    rstd = reciprocal_rms(wide, gamma.dim(), epsilon)
    return (wide * rstd * gamma.float()).to(x.dtype), rstd


@kernel("GemmaRmsNorm", flops=7, chips=A2_A3_950)
def gemma_rms_norm(x: Tensor, gamma: Tensor, *, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """``(y, rstd)`` of a norm whose weight is ``1 + gamma``."""
    wide = x.float()
    rstd = reciprocal_rms(wide, gamma.dim(), epsilon)
    return (wide * rstd * (gamma.float() + 1.0)).to(x.dtype), rstd

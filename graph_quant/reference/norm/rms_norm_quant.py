"""npu_rms_norm_quant: RMS norm with per-tensor quantisation.

``v = (x * rstd * gamma + beta) * (1 / scale) + offset`` in float32, each step rounded. The kernel then rounds v to
float16 and that to the integer, half to even: a tie is decided after the rounding to float16. torch_npu documents a
multiplication by scale; the kernel, aclnnRmsNormQuant and op-plugin's golden divide.
"""

from __future__ import annotations

from graph_quant.destination import Destination, element_destination
from graph_quant.ge import kernel
from graph_quant.reference.norm.rms import reciprocal_rms
from graph_quant.reference.rounding import store
from torch import Tensor


def rms_norm_quant(
    x: Tensor, gamma: Tensor, beta: Tensor, scale: Tensor, offset: Tensor, epsilon: float, destination: Destination
) -> Tensor:
    """The norm of the last dimension of ``x`` as integers of ``destination``."""
    wide = x.float()
    normed = wide * reciprocal_rms(wide, 1, epsilon) * gamma.reshape(-1).float() + beta.reshape(-1).float()
    scaled = normed * scale.float().reciprocal() + offset.float()
    return store(scaled.half().float(), destination)


@kernel("RmsNormQuant", flops=10, same=("x", "gamma", "beta", "scale"), packs=True)
def rms_norm_quant_node(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    scale: Tensor,
    offset: Tensor,
    *,
    epsilon: float = 0.1,
    high_precision_mode: bool = False,  # noqa: ARG001 (the kernel of A2 and A3 does not read it)
    gemma_mode: bool = False,
    dst_type: int = 2,
) -> Tensor:
    if gemma_mode:
        raise NotImplementedError("RmsNormQuant: gemma_mode has no host kernel")
    return rms_norm_quant(x, gamma, beta, scale, offset, epsilon, element_destination(dst_type))

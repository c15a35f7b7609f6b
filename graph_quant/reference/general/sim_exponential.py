"""npu_sim_exponential_: samples of an exponential distribution from a generator of the NPU.

``-log(u) / lambd`` with u uniform in the open interval (0, 1), in float32. The distribution is the documented one; the
samples are the host's own, because the device's random number generation for this operator is not public.
"""

from __future__ import annotations

import torch
from graph_quant.reference.rng import uniform_open
from torch import Tensor


def sim_exponential(x: Tensor, lambd: float, generator: torch.Generator | None) -> Tensor:
    """Fills ``x`` with samples."""
    return x.copy_(uniform_open(x.shape, generator).log() / -lambd)

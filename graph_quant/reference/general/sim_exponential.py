"""npu_sim_exponential_: numbers of an exponential distribution, drawn by a generator of the npu.

``-log(u) / lambd``, u even between 0 and 1 and neither of them, in float32. The distribution is the document's; the
numbers are the host's own, for of which words a device makes them is not public.
"""

from __future__ import annotations

import torch
from graph_quant.reference.rng import uniform_open
from torch import Tensor


def sim_exponential(x: Tensor, lambd: float, generator: torch.Generator | None) -> Tensor:
    """``x``, filled."""
    return x.copy_(uniform_open(x.shape, generator).log() / -lambd)

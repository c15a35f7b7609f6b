"""npu_sim_exponential_: numbers of an exponential distribution, drawn by a generator of the npu.

``-log(u) / lambd``, u even between 0 and 1 and neither of them, in float32. The distribution is the document's; the
numbers are the host's own, for of which words a device makes them is not public.
"""

from __future__ import annotations

import torch
from graph_quant.reference.draws import moved_on, words
from torch import Tensor

# How far one draw moves the generator: the ten that torch_npu asks for, in multiples of four.
_STEP = 12


def sim_exponential(x: Tensor, lambd: float, generator: torch.Generator | None) -> Tensor:
    """``x``, filled."""
    npu = torch.npu  # type: ignore[attr-defined]
    drawing = npu.default_generators[npu.current_device()] if generator is None else generator
    seed, offset = moved_on(drawing, _STEP)
    drawn = (words(torch.tensor(seed), torch.tensor(offset), x.numel()) >> 8).to(torch.float32)
    even = (drawn + 0.5) * 2.0**-24
    return x.copy_((even.log() / -lambd).reshape(x.shape))

"""The weighted sum of expert outputs: the first version of the node, which other graphs contain."""

from __future__ import annotations

import random

import numpy as np
import torch

from support.kernel_samples.base import Case, kernel_sample, whole


@kernel_sample("MoeFinalizeRouting")
def finalize_routing(chance: random.Random) -> Case:
    rows, terms, width, experts = chance.randint(1, 4), chance.randint(1, 3), chance.randint(1, 4), chance.randint(1, 3)
    dtype = chance.choice((torch.float32, torch.float16, torch.bfloat16))
    expanded, bias = whole([rows * terms, width], dtype), whole([experts, width], dtype)
    skip1, skip2 = whole([rows, width], dtype), whole([rows, width], dtype) if chance.random() < 0.5 else None
    scales, expert = whole([rows, terms], dtype), torch.randint(0, experts, [rows, terms], dtype=torch.int32)
    order = torch.randperm(rows * terms).int()
    total = skip1.double().numpy() + (0 if skip2 is None else skip2.double().numpy())
    for row, term in np.ndindex(rows, terms):
        contribution = expanded[order[term * rows + row]] + bias[expert[row, term]]
        total[row] += scales[row, term].item() * contribution.double().numpy()
    expected = torch.from_numpy(total).to(dtype)
    return Case([expanded, skip1, skip2, bias, scales, order, expert], {}, expected)

"""Rows quantised by their largest magnitude, with normal, subnormal, zero and infinite scales."""

import os

import numpy as np
import pytest
import torch
from graph_quant.reference.moe.expert_smooth_quant import quantise_smoothed_rows

from support.arrays import to_int8

ODD = {
    "ordinary": torch.randn(4, 40, generator=torch.Generator().manual_seed(0)),
    "zeros": torch.zeros(1, 40),
    "subnormal": torch.linspace(-190, 190, 40).round().unsqueeze(0) * 2.0**-149,
    "scale of zero": torch.tensor([[1.0, -1.0, 0.0, 30.0] * 10]) * 2.0**-149,
    "infinite": torch.tensor([[1.0, float("inf"), -float("inf"), 0.0] * 10]),
    "nan": torch.tensor([[1.0, float("nan"), -3.0, 0.0] * 10]),
}


# Compiling takes its time: both where more examples are asked for.
FUSED = [False, True] if "GRAPH_QUANT_EXAMPLES" in os.environ else [False]


@pytest.mark.parametrize("fused", FUSED, ids=str)
def test_quotients_are_stored_by_the_rule(fused: bool) -> None:
    for rows in (ODD["ordinary"], torch.cat(list(ODD.values()))):
        token, expert = torch.arange(rows.size(0)).repeat(2), torch.zeros(2 * rows.size(0), dtype=torch.int64)
        smooth = torch.cat([torch.ones(1, 40), torch.full((1, 40), 0.5)])
        y, scale = quantise_smoothed_rows(rows, token, expert, smooth, False, fused)
        with np.errstate(all="ignore"):
            expected = np.abs(rows.numpy()).max(-1, keepdims=True) / np.float32(127)
            integers = to_int8(rows.numpy() / expected)
        assert np.array_equal(scale.numpy(), np.tile(expected.squeeze(-1), 2), equal_nan=True)
        assert np.array_equal(y.numpy(), np.tile(integers, (2, 1)))

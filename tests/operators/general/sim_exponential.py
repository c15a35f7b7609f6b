"""Wrong calls of npu_sim_exponential_; the samples are checked in test_sim_exponential.py."""

import torch

from support.call_table import bad
from support.tensors import f32, i8

OP = "sim_exponential_"
WRONG = [
    bad(OP, "input", "int8", i8(4)),
    bad(OP, "input", "nine dimensions", torch.zeros((1,) * 9)),
    bad(OP, "input", "by columns", f32(2, 3).t()),
    bad(OP, "lambd", "none", f32(4), 0.0),
    bad(OP, "lambd", "below 0", f32(4), -1.0),
]

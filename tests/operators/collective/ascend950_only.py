"""Calls of operators that other chips than A2 and A3 have kernels for."""

from typing import Any

from support.call_table import bad
from support.tensors import f16, f32

COUNTS = [1, 1, 1, 1]


def given() -> tuple[Any, ...]:
    return f16(4, 8), f16(2, 8, 4), f32(1), f32(1), "group", 2, COUNTS, COUNTS, 5


WRONG = [
    bad("quant_gmm_alltoallv", "Ascend 950", "as the vendor's test", *given()),
    bad("alltoallv_quant_gmm", "Ascend 950", "the other way", *given()),
]

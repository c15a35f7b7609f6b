"""Calls of operators that other chips than A2 and A3 have kernels for, as their documents make them."""

from support.call_table import bad
from support.tensors import ends, f16

WRONG = [
    bad(
        "scatter_pa_cache.value",
        "Ascend 950",
        "as the document",
        f16(3, 2, 16),
        ends(0, 1, 2),
        key_cache=f16(2, 4, 2, 16),
    )
]

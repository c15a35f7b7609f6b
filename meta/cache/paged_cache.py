"""Rules for paged KV caches."""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.meta.rules import Rules
from graph_quant.reference.cache.paged_cache import NZ_BYTES, PA_NZ
from torch import Tensor

DTYPES = (torch.float16, torch.bfloat16, torch.int8)
DTYPES_950 = (
    *DTYPES,
    torch.float32,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.float8_e5m2,
    torch.float8_e4m3fn,
)


def check_dtype(rules: Rules, name: str, tensor: Tensor) -> None:
    """Check that a cache of the chip in use can have the dtype of ``tensor``."""
    if rules.chip is ASCEND_950:
        rules.dtype(name, tensor, DTYPES_950)
    else:
        rules.dtype(name, tensor, DTYPES, " on A2 and A3")


def check_rows(rules: Rules, name: str, rows: Tensor, cache: Tensor, mode: str) -> None:
    """Check that ``cache`` can hold the tokens of ``rows`` (tokens, heads, channels)."""
    cache_name, c = f"{name}_cache", NZ_BYTES // rows.element_size()
    check_dtype(rules, name, rows)
    rules.rank(name, rows, 3)
    rules.not_empty(name, rows)
    rules.dtype(cache_name, cache, (rows.dtype,), f", the dtype of {name}")
    heads, channels = rows.size(1), rows.size(2)
    if mode != PA_NZ:
        rules.rank(cache_name, cache, 4)
        rules.equal(f"{cache_name}.size(2)", cache.size(2), f"{name}.size(1)", heads)
        rules.equal(f"{cache_name}.size(3)", cache.size(3), f"{name}.size(2)", channels)
        return
    rules.require(
        channels % c == 0, lambda: f"{name}.size(2) must fill parts of {NZ_BYTES} bytes in mode PA_NZ, got {channels}"
    )
    rules.rank(cache_name, cache, 4, 5)
    rules.equal(f"{cache_name}.size(-1)", cache.size(-1), f"{NZ_BYTES} bytes of {name}", c)
    if cache.dim() == 4:
        rules.equal(f"{cache_name}.size(1)", cache.size(1), f"the parts of {name}", heads * channels // c)
    else:
        rules.equal(f"{cache_name}.size(1)", cache.size(1), f"{name}.size(1)", heads)
        rules.equal(f"{cache_name}.size(2)", cache.size(2), f"the parts of a head of {name}", channels // c)


def check_alike(rules: Rules, key_cache: Tensor, value_cache: Tensor, mode: str) -> None:
    """Check that both caches have the same number and size of blocks."""
    rules.rank("value_cache", value_cache, key_cache.dim(), why=", as key_cache has")
    for dim in (0, -2 if mode == PA_NZ else 1):
        rules.equal(f"value_cache.size({dim})", value_cache.size(dim), f"key_cache.size({dim})", key_cache.size(dim))

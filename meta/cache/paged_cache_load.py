"""ATB's npu_paged_cache_load: loads sequences from a paged cache and concatenates them.

Caches are (blocks, block size, heads, channels) of float16, bfloat16 or int8, with heads * channels in multiples of 32
bytes; block_table, context_lens and seq_starts are int32. With cumsum, context_lens are cumulative and start with 0.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.meta import atb  # noqa: F401 (it defines the operators)
from graph_quant.meta.attention.signatures import with_signature
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.cache import paged_cache_load as reference
from torch import Tensor

NAMES = ("key_cache", "value_cache", "block_table", "context_lens", "seq_starts", "cumsum")
PARTS = 32
_LENGTHS = ("context_lens", "seq_starts")


def _check(rules: Rules, arguments: dict[str, Any]) -> None:
    key_cache = arguments["key_cache"]
    rules.dtype("key_cache", key_cache, (torch.float16, torch.bfloat16, torch.int8))
    for name in ("key_cache", "value_cache"):
        cache: Tensor = arguments[name]
        rules.dtype(name, cache, (key_cache.dtype,), ", the dtype of key_cache")
        rules.rank(name, cache, 4)
        for dim in range(3):
            rules.equal(f"{name}.size({dim})", cache.size(dim), f"key_cache.size({dim})", key_cache.size(dim))
        width = cache.size(2) * cache.size(3) * cache.element_size()
        rules.require(
            width % PARTS == 0,
            lambda name=name, width=width: f"a token of {name} must have a multiple of {PARTS} bytes, got {width}",  # type: ignore[misc]
        )
    table, lengths, starts = arguments["block_table"], arguments["context_lens"], arguments["seq_starts"]
    rules.dtype("block_table", table, (torch.int32,))
    rules.rank("block_table", table, 2)
    for name, tensor, more in (("context_lens", lengths, int(arguments["cumsum"])), ("seq_starts", starts, 0)):
        if tensor is not None:
            rules.dtype(name, tensor, (torch.int32,))
            rules.rank(name, tensor, 1)
            rules.equal(f"{name}.size(0)", tensor.size(0), f"block_table.size(0) + {more}", table.size(0) + more)


def _plan(rules: Rules, *values: Any) -> Plan:
    arguments = dict(zip(NAMES, values, strict=True))
    _check(rules, arguments)
    if not rules.is_eager:
        rules.refuse("key and value must be given where a call is traced or captured: their size is in context_lens")
    tokens = sum(reference.sequence_lengths(arguments["context_lens"], arguments["cumsum"]))
    caches = (arguments["key_cache"], arguments["value_cache"])
    return Plan(tuple(Result((tokens, *cache.shape[2:]), cache.dtype) for cache in caches))


def _plan_into(rules: Rules, *values: Any) -> Plan:
    *inputs, key, value = values
    arguments = dict(zip(NAMES, inputs, strict=True))
    _check(rules, arguments)
    for name, tensor in (("key", key), ("value", value)):
        cache = arguments[f"{name}_cache"]
        rules.dtype(name, tensor, (cache.dtype,), f", the dtype of {name}_cache")
        rules.rank(name, tensor, 3)
        rules.equal(f"{name}.size(0)", tensor.size(0), "key.size(0)", key.size(0))
        for dim in (1, 2):
            rules.equal(f"{name}.size({dim})", tensor.size(dim), f"{name}_cache.size({dim + 1})", cache.size(dim + 1))
    return Plan(("key", "value"))


operator("atb::npu_paged_cache_load", reference=reference.load, on_any_device=_LENGTHS)(
    with_signature(("rules", *NAMES), _plan)
)
operator("atb::npu_paged_cache_load.out", reference=reference.load_into, on_any_device=_LENGTHS)(
    with_signature(("rules", *NAMES, "key", "value"), _plan_into)
)

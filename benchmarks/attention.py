"""Decoding attention, 32 heads over a cache of 4096 tokens, relative to torch's own on the same data.

Each figure is a ratio of minimum times, measured alternately in one run.

    python benchmarks/run.py attention
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import graph_quant  # noqa: F401 (before torch: it makes torch_npu loadable)
import torch
import torch_npu

HEADS, TOKENS, WIDTH, BLOCK = 32, 4096, 128, 128
ROUNDS = 7
# Bounds, as multiples of torch's scaled_dot_product_attention.
BARS = {"contiguous": 2, "in blocks": 3}


def measure() -> dict[str, Any]:
    """Return the ratios for both half-precision dtypes, with their bounds."""
    return {str(dtype).removeprefix("torch."): _ratios(dtype) for dtype in (torch.float16, torch.bfloat16)}


def _ratios(dtype: torch.dtype) -> dict[str, Any]:
    query = torch.randn(1, HEADS, 1, WIDTH).to(dtype)
    key, value = (torch.randn(1, HEADS, TOKENS, WIDTH).to(dtype) for _ in range(2))
    taken = _alternating(
        {
            "torch": lambda: torch.nn.functional.scaled_dot_product_attention(query, key, value),
            "contiguous": _contiguous(query, key, value),
            "in blocks": _in_blocks(query, key, value),
        }
    )
    return {
        name: {"milliseconds": round(taken[name] * 1e3, 1), "ratio": round(taken[name] / taken["torch"], 2), "bar": bar}
        for name, bar in BARS.items()
    }


def _contiguous(*tensors: torch.Tensor) -> Callable[[], object]:
    query, key, value = (tensor.npu() for tensor in tensors)
    return lambda: torch_npu.npu_fused_infer_attention_score(
        query, key, value, num_heads=HEADS, input_layout="BNSD", scale=WIDTH**-0.5
    )


def _in_blocks(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Callable[[], object]:
    """Return the call on the same tokens in a paged cache with shuffled blocks."""
    order = torch.randperm(TOKENS // BLOCK)
    caches = []
    for tensor in (key, value):
        blocks = tensor[0].unflatten(1, (-1, BLOCK)).transpose(0, 1)
        cache = torch.empty_like(blocks, memory_format=torch.contiguous_format)
        cache[order] = blocks
        caches.append(cache.npu())
    moved, table = query.npu(), order.int()[None].npu()
    return lambda: torch_npu.npu_fused_infer_attention_score(
        moved,
        *caches,
        num_heads=HEADS,
        input_layout="BNSD",
        scale=WIDTH**-0.5,
        block_table=table,
        block_size=BLOCK,
        actual_seq_lengths_kv=[TOKENS],
    )


def _alternating(functions: dict[str, Callable[[], object]]) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            taken[name].append(time.perf_counter() - start)
    return {name: min(times) for name, times in taken.items()}

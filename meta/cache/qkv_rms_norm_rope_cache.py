"""npu_qkv_rms_norm_rope_cache and its functional form: argument rules and results.

qkv is (tokens, heads * 128) of float16 or bfloat16; qkv_size is [batches, tokens per batch, heads, 128]; head_nums are
the heads of queries, keys and values, the last two equal and a divisor of the first. Both gammas are (128,), cos and
sin (tokens, 128), q_out (tokens, query heads * 128), all in the dtype of qkv; index has an int64 for each token. The
caches are (blocks, heads * 128 / c, block size, c) with 32 bytes in c, in the dtype of qkv or, with a scale, int8. Both
have the same blocks of a multiple of 32 tokens, which hold every batch separately. Scales and offsets are float32
(heads, 128).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.cache import qkv_rms_norm_rope_cache as reference
from graph_quant.reference.cache.paged_cache import NZ_BYTES, PA_NZ
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
WIDTH = 128
BLOCK_UNIT = 32
_WRITTEN = 3  # q_out and both caches, which the functional form returns
# A cache with the scale and offset of its entries.
Cached = tuple[Tensor, Tensor | None, Tensor | None]


def _check_sizes(rules: Rules, qkv: Tensor, qkv_size: Sequence[int], head_nums: Sequence[int]) -> None:
    rules.dtype("qkv", qkv, HALVES)
    rules.rank("qkv", qkv, 2)
    rules.require(len(qkv_size) == 4, lambda: f"qkv_size must have 4 elements, got {list(qkv_size)}")
    rules.require(len(head_nums) == 3, lambda: f"head_nums must have 3 elements, got {list(head_nums)}")
    rules.require(
        min(*qkv_size, *head_nums) > 0 and head_nums[1] == head_nums[2],
        lambda: f"head_nums must be positive, and the same for keys and values, got {list(head_nums)}",
    )
    rules.require(
        head_nums[0] % head_nums[1] == 0,
        lambda: f"head_nums[0] must be a multiple of head_nums[1], got {list(head_nums)}",
    )
    rules.equal("qkv_size[3]", qkv_size[3], "128", WIDTH)
    rules.equal("qkv_size[2]", qkv_size[2], "the sum of head_nums", sum(head_nums))
    rules.equal("qkv.size(0)", qkv.size(0), "qkv_size[0] * qkv_size[1]", qkv_size[0] * qkv_size[1])
    rules.equal("qkv.size(1)", qkv.size(1), "qkv_size[2] * qkv_size[3]", qkv_size[2] * WIDTH)


def _check_rows(rules: Rules, qkv: Tensor, rows: dict[str, tuple[Tensor, tuple[int | torch.SymInt, ...]]]) -> None:
    for name, (tensor, shape) in rows.items():
        rules.dtype(name, tensor, (qkv.dtype,), ", the dtype of qkv")
        rules.rank(name, tensor, len(shape))
        for dim, size in enumerate(shape):
            rules.equal(f"{name}.size({dim})", tensor.size(dim), "what qkv_size and head_nums say", size)


def _check_cache(rules: Rules, name: str, cached: Cached, qkv: Tensor, qkv_size: Sequence[int], heads: int) -> None:
    cache, scale, offset = cached
    rules.dtype(f"{name}_cache", cache, (qkv.dtype, torch.int8))
    c = NZ_BYTES // cache.element_size()
    rules.rank(f"{name}_cache", cache, 4)
    rules.equal(f"{name}_cache.size(1)", cache.size(1), "the parts of a token", heads * WIDTH // c)
    rules.equal(f"{name}_cache.size(3)", cache.size(3), f"{NZ_BYTES} bytes", c)
    blocks, size = cache.size(0), cache.size(2)
    rules.at_least(f"{name}_cache.size(2)", size, 1)
    rules.multiple(f"{name}_cache.size(2)", size, BLOCK_UNIT)
    rules.require(
        blocks >= (qkv_size[1] + size - 1) // size * qkv_size[0],
        lambda: f"{name}_cache.size(0) must give {qkv_size[0]} batches of {qkv_size[1]} tokens blocks, got {blocks}",
    )
    rules.require(
        (scale is not None) == (cache.dtype == torch.int8),
        lambda: f"{name}_scale must be given for a cache of torch.int8 alone, got {name}_cache of {cache.dtype}",
    )
    rules.require(offset is None or scale is not None, lambda: f"{name}_offset needs {name}_scale, got None")
    for kind, parameter in (("scale", scale), ("offset", offset)):
        if parameter is not None:
            rules.dtype(f"{name}_{kind}", parameter, (torch.float32,))
            rules.rank(f"{name}_{kind}", parameter, 2)
            rules.equal(f"{name}_{kind}.size(0)", parameter.size(0), "the heads it is for", heads)
            rules.equal(f"{name}_{kind}.size(1)", parameter.size(1), "128", WIDTH)


def _check(
    rules: Rules,
    qkv: Tensor,
    rows: dict[str, Tensor],
    index: Tensor,
    caches: dict[str, Cached],
    qkv_size: Sequence[int],
    head_nums: Sequence[int],
    cache_mode: str,
) -> None:
    rules.one_of("cache_mode", cache_mode, (PA_NZ,))
    _check_sizes(rules, qkv, qkv_size, head_nums)
    tokens = qkv.size(0)
    shapes = dict(zip(rows, ((WIDTH,), (WIDTH,), (tokens, WIDTH), (tokens, WIDTH)), strict=False))
    shapes["q_out"] = (tokens, head_nums[0] * WIDTH)
    _check_rows(rules, qkv, {name: (rows[name], shape) for name, shape in shapes.items()})
    rules.dtype("index", index, (torch.int64,))
    rules.rank("index", index, 1)
    rules.equal("index.size(0)", index.size(0), "qkv.size(0)", tokens)
    for name, cached in caches.items():
        _check_cache(rules, name, cached, qkv, qkv_size, head_nums[1])
    keys, values = caches["k"][0], caches["v"][0]
    for dim in (0, 2):
        rules.equal(f"v_cache.size({dim})", values.size(dim), f"k_cache.size({dim})", keys.size(dim))


def _unquantised(qkv: Tensor, head_nums: Sequence[int], is_requested: bool) -> tuple[Result, ...]:
    return tuple(Result((qkv.size(0), heads * WIDTH) if is_requested else (), qkv.dtype) for heads in head_nums)


@operator(
    "npu_qkv_rms_norm_rope_cache",
    reference=reference.qkv_rms_norm_rope_cache,
    results=lambda outputs: outputs[:-_WRITTEN],
)
@operator("npu_qkv_rms_norm_rope_cache_functional", reference=reference.qkv_rms_norm_rope_cache_functional)
def qkv_rms_norm_rope_cache(
    rules: Rules,
    qkv: Tensor,
    q_gamma: Tensor,
    k_gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    q_out: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    qkv_size: Sequence[int],
    head_nums: Sequence[int],
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    k_offset: Tensor | None,
    v_offset: Tensor | None,
    epsilon: float,  # noqa: ARG001
    cache_mode: str,
    is_output_qkv: bool,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rows = {"q_gamma": q_gamma, "k_gamma": k_gamma, "cos": cos, "sin": sin, "q_out": q_out}
    caches: dict[str, Cached] = {"k": (k_cache, k_scale, k_offset), "v": (v_cache, v_scale, v_offset)}
    _check(rules, qkv, rows, index, caches, qkv_size, head_nums, cache_mode)
    written = tuple(Result(tuple(tensor.shape), tensor.dtype) for tensor in (q_out, k_cache, v_cache))
    return Plan((*_unquantised(qkv, head_nums, is_output_qkv), *written))

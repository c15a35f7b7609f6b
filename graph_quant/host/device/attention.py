"""scaled_dot_product_attention as torch_npu has it: npu_fusion_attention where that takes the call.

A compiler sees the same operator, so that graphs compute attention as eager mode does, in one node.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ...releases.alternatives import guard_or_false, guard_or_true

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_LAYOUT = "BNSD"
_MOST_HEADS, _MOST_CHANNELS = 2048, 512
# The size of the square mask that the kernels take for all causal calls.
_CAUSAL_MASK_SIZE = 2048
_UNLIMITED = 2147483647
# Values of sparse_mode.
_FULL_MASK, _CAUSAL = 0, 2
# Value of inner_precise: the result of a query that attends to no key is zero.
_ZERO_MASKED_ROWS = 2


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Call npu_fusion_attention where it takes the call, else PyTorch's composition, which also has dropout here."""
    if dropout_p or not _is_fused(query, key, value, attn_mask, is_causal):
        mask = _additive_mask(attn_mask, query.dtype)
        compose = torch.ops.aten._scaled_dot_product_attention_math
        return compose(query, key, value, mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)[0]  # type: ignore[no-any-return]
    may_mask_rows = attn_mask is not None and guard_or_true(query.size(2) > 1)
    mask, mode = _causal_mask(query, key) if is_causal else (_inverted_mask(attn_mask, query, key), _FULL_MASK)
    return torch.ops.npu.npu_fusion_attention(  # type: ignore[no-any-return]
        query,
        key,
        value,
        int(query.size(1)),
        _LAYOUT,
        atten_mask=mask,
        scale=1.0 / math.sqrt(int(query.size(-1))) if scale is None else scale,
        pre_tockens=_UNLIMITED,
        next_tockens=0 if is_causal else _UNLIMITED,
        inner_precise=_ZERO_MASKED_ROWS if may_mask_rows else 0,
        sparse_mode=mode,
    )[0]


def _is_fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> bool:
    if not all(tensor.dim() == len(_LAYOUT) and tensor.dtype == query.dtype for tensor in (query, key, value)):
        return False
    if query.dtype not in _DTYPES or (mask is not None and (mask.dtype != torch.bool or is_causal)):
        return False
    if query.dtype == torch.float32 and any(tensor.size(-1) % 4 for tensor in (query, key, value)):
        return False
    heads, kv_heads = query.size(1), key.size(1)
    return bool(max(heads, kv_heads) <= _MOST_HEADS and query.size(3) <= _MOST_CHANNELS and heads % kv_heads == 0)


def _causal_mask(query: Tensor, key: Tensor) -> tuple[Tensor, int]:
    """Return the causal mask and its sparse_mode: a full mask where it is small, else the kernels' compressed mask."""
    sizes = (query.size(2), key.size(2))
    small = all(guard_or_false(size <= _CAUSAL_MASK_SIZE) for size in sizes)
    ones = torch.ones(sizes if small else (_CAUSAL_MASK_SIZE, _CAUSAL_MASK_SIZE), dtype=torch.bool, device=query.device)
    return ones.triu(1), _FULL_MASK if small else _CAUSAL


def _inverted_mask(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """Return the mask of the keys that are left out, in a shape that npu_fusion_attention takes."""
    if mask is None:
        return None
    batch, heads, queries, keys = *query.shape[:3], key.size(2)
    fits = mask.dim() in (2, 4) and _same_sizes(mask.shape[-2:], (queries, keys))
    if mask.dim() == 4:
        fits = fits and (
            _same_sizes(mask.shape[:2], (1, 1)) or any(_same_sizes(mask.shape[:2], (batch, n)) for n in (1, heads))
        )
    return (mask if fits else mask.expand(batch, heads, queries, keys)).logical_not()


def _same_sizes(sizes: Any, others: Any) -> bool:
    return all(guard_or_false(one == other) for one, other in zip(sizes, others, strict=True))


def _additive_mask(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Return a boolean mask as 0 and -inf to add to the scores."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask.logical_not(), -math.inf)


COMPOSED = {"aten::scaled_dot_product_attention": scaled_dot_product_attention}

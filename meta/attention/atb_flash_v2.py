"""ATB's _npu_flash_attention_v2: sequences over themselves under a mask of one of several kinds.

Tensors are as for _npu_flash_attention, seq_len has a length for each sequence. mask_type 1 is a mask as there; 2 one
with the slopes of ALiBi in it, (heads, rows, columns) or one for each sequence before that; 4 is the first 256 rows and
columns of one without them, and slopes (heads,) float32. The compressed ones of square roots, 5, and aligned to the
left, 6, are not supported.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta import atb  # noqa: F401 (it defines the operators)
from graph_quant.meta.attention.atb import check_self_attention
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention import atb_flash_v2 as reference
from torch import Tensor


@operator("atb::_npu_flash_attention_v2.out", reference=reference.flash_attention_v2)
def flash_attention_v2(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seq_len: Sequence[int],
    mask: Tensor | None,
    slopes: Tensor | None,
    kernel_type: int,
    mask_type: int,
    scale_value: float,  # noqa: ARG001 - any
    num_heads: int,
    num_kv_heads: int,
    out: Tensor,
) -> Plan:
    """Checks a call against the rules of the library, and returns its plan."""
    rules.one_of("mask_type", mask_type, (reference.NORM, reference.ALIBI, reference.COMPRESSED), ", what is supported")
    rules.one_of("kernel_type", kernel_type, (0, 1))
    lengths = torch.tensor(list(seq_len), dtype=torch.int32)
    check_self_attention(rules, query, key, value, lengths, (num_heads, num_kv_heads or num_heads), out)
    if mask is None:
        rules.refuse(f"mask must be given for mask_type {mask_type}, got None")
    rules.dtype("mask", mask, (query.dtype,), ", the dtype of query")
    if mask_type == reference.COMPRESSED:
        _check_compressed(rules, mask, slopes, num_heads)
        return Plan(("out",))
    rules.require(slopes is None, lambda: f"slopes must be None for mask_type {mask_type}, got a tensor")
    rules.equal("mask.size(-2)", mask.size(-2), "mask.size(-1)", mask.size(-1))
    if mask_type == reference.NORM:
        rules.rank("mask", mask, 2, 3)
        if mask.dim() == 3:
            rules.one_or("mask.size(0)", mask.size(0), "the sequences", len(seq_len))
        return Plan(("out",))
    rules.rank("mask", mask, 3, 4)
    rules.equal("mask.size(-3)", mask.size(-3), "num_heads", num_heads)
    if mask.dim() == 4:
        rules.equal("mask.size(0)", mask.size(0), "the sequences", len(seq_len))
    return Plan(("out",))


def _check_compressed(rules: Rules, mask: Tensor, slopes: Tensor | None, num_heads: int) -> None:
    rules.rank("mask", mask, 2)
    for dim in range(2):
        rules.equal(f"mask.size({dim})", mask.size(dim), "the rows and columns of a compressed mask", reference.SIDE)
    if slopes is None:
        rules.refuse("slopes must be given for a compressed mask, got None")
    rules.dtype("slopes", slopes, (torch.float32,))
    rules.rank("slopes", slopes, 1)
    rules.equal("slopes.size(0)", slopes.size(0), "num_heads", num_heads)

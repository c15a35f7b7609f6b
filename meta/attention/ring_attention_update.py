"""npu_ring_attention_update: rules and results.

Results of attention are (S, B, heads * channels), or (T, heads, channels) with at most 256 heads and channels that are
a multiple of 64 up to 768; maxima and sums are float32, each number eight times: (B, heads, S, 8), or (T, heads, 8).
"""

from __future__ import annotations

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, ND, Rules
from graph_quant.reference.attention.ring_attention_update import TIMES
from graph_quant.reference.attention.ring_attention_update import ring_attention_update as reference
from torch import Tensor

MOST_HEADS, MOST_CHANNELS, STEP = 256, 768, 64


@operator("npu_ring_attention_update", reference=reference)
def ring_attention_update(
    rules: Rules,
    prev_attn_out: Tensor,
    prev_softmax_max: Tensor,
    prev_softmax_sum: Tensor,
    cur_attn_out: Tensor,
    cur_softmax_max: Tensor,
    cur_softmax_sum: Tensor,
    actual_seq_qlen: Tensor | None,
    input_layout: str,
    input_softmax_layout: str,
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    rules.one_of("input_layout", input_layout, ("SBH", "TND"))
    rules.one_of("input_softmax_layout", input_softmax_layout, ("", "SBH", "TND"))
    rules.dtype("prev_attn_out", prev_attn_out, FLOATS)
    rules.rank("prev_attn_out", prev_attn_out, 3)
    rules.not_empty("prev_attn_out", prev_attn_out)
    rules.like("cur_attn_out", cur_attn_out, "prev_attn_out", prev_attn_out)
    rules.dtype("prev_softmax_max", prev_softmax_max, (torch.float32,))
    rules.rank("prev_softmax_max", prev_softmax_max, 4 if input_layout == "SBH" else 3)
    rules.equal("prev_softmax_max.size(-1)", prev_softmax_max.size(-1), "the times of each number", TIMES)
    others = {
        "prev_softmax_sum": prev_softmax_sum,
        "cur_softmax_max": cur_softmax_max,
        "cur_softmax_sum": cur_softmax_sum,
    }
    for name, tensor in others.items():
        rules.like(name, tensor, "prev_softmax_max", prev_softmax_max)
    if actual_seq_qlen is not None:
        rules.dtype("actual_seq_qlen", actual_seq_qlen, (torch.int64,))
    if input_layout == "SBH":
        _check_sequences(rules, prev_attn_out, prev_softmax_max)
    else:
        _check_tokens(rules, prev_attn_out, prev_softmax_max, actual_seq_qlen)
    for name, tensor in {
        "prev_attn_out": prev_attn_out,
        "cur_attn_out": cur_attn_out,
        "prev_softmax_max": prev_softmax_max,
        **others,
    }.items():
        rules.format(name, tensor, ND)
    moments = Result(tuple(prev_softmax_max.shape), torch.float32)
    return Plan((Result(tuple(prev_attn_out.shape), prev_attn_out.dtype), moments, moments))


def _check_sequences(rules: Rules, out: Tensor, softmax: Tensor) -> None:
    rules.equal("prev_softmax_max.size(0)", softmax.size(0), "prev_attn_out.size(1)", out.size(1))
    rules.at_least("prev_softmax_max.size(1)", softmax.size(1), 1)
    rules.equal("prev_softmax_max.size(2)", softmax.size(2), "prev_attn_out.size(0)", out.size(0))
    rules.require(
        out.size(2) % softmax.size(1) == 0,
        lambda: f"prev_attn_out.size(2) must be a multiple of {softmax.size(1)}, the heads, got {out.size(2)}",
    )


def _check_tokens(rules: Rules, out: Tensor, softmax: Tensor, actual_seq_qlen: Tensor | None) -> None:
    if actual_seq_qlen is None:
        rules.refuse("actual_seq_qlen must be given for input_layout TND, got None")
    rules.rank("actual_seq_qlen", actual_seq_qlen, 1)
    rules.at_least("actual_seq_qlen.size(0)", actual_seq_qlen.size(0), 2)
    for dim in range(2):
        rules.equal(f"prev_softmax_max.size({dim})", softmax.size(dim), f"prev_attn_out.size({dim})", out.size(dim))
    heads, channels = out.size(1), out.size(2)
    rules.require(heads <= MOST_HEADS, lambda: f"prev_attn_out.size(1) must be at most {MOST_HEADS}, got {heads}")
    rules.require(
        channels % STEP == 0, lambda: f"prev_attn_out.size(2) must be a multiple of {STEP} for TND, got {channels}"
    )
    rules.require(
        channels <= MOST_CHANNELS, lambda: f"prev_attn_out.size(2) must be at most {MOST_CHANNELS}, got {channels}"
    )

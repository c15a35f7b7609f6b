"""MX blocks of groups of rows, where rows beyond the last group are not written by the device; here they are 0."""

from __future__ import annotations

import torch
from graph_quant.narrow_floats import FORMATS
from graph_quant.reference.grouping import COUNTS, spans
from graph_quant.reference.opaque import opaque
from graph_quant.reference.quant.mx_blocks import MxRule, quantise_blocks, store_scales
from torch import Tensor

_PAIR = 64


def _infer(
    x: Tensor, groups: Tensor, _op: str, _kind: int, axis: int, _name: str, _mode: str, _scale_alg: int
) -> tuple[Tensor, Tensor]:
    codes = x.new_empty(x.shape, dtype=torch.uint8)
    if axis == -1:
        shape = (x.size(0), (x.size(1) + _PAIR - 1) // _PAIR, 2)
    else:
        shape = (x.size(0) // _PAIR + groups.size(0), x.size(1), 2)
    return codes, x.new_empty(shape, dtype=torch.uint8)


@opaque(_infer)
def grouped_mx_blocks(
    x: Tensor, groups: Tensor, op: str, kind: int, axis: int, name: str, round_mode: str, scale_alg: int
) -> tuple[Tensor, Tensor]:
    """The codes of a matrix as bytes, and those of the scales of its blocks along the axis -1 or -2, in pairs.

    Args:
        x: Matrix of float16 or bfloat16.
        groups: The groups of rows.
        op: The operator, for messages.
        kind: How ``groups`` encodes them: ENDS or COUNTS of ``grouping``.
        axis: The axis that blocks run along. Along -2 groups share no pair of blocks: with ENDS the pairs of group i
            begin at ``start // 64 + i``, with COUNTS after those of the group before.
        name: The format.
        round_mode: How elements are rounded.
        scale_alg: How scales are computed.

    Returns:
        The codes in the shape of ``x``, and the scales.
    """
    rule = MxRule(
        next(candidate for candidate in FORMATS if candidate.name == name), scale_alg, round_mode, keeps_tiny=True
    )
    codes, scales = (result.zero_() for result in _infer(x, groups, op, kind, axis, name, round_mode, scale_alg))
    ranges = spans(op, groups, kind, groups.size(0), x.size(0), "group_index")
    if axis == -1:
        end = ranges[-1].end if ranges else 0
        part, shared = quantise_blocks(x[:end], -1, rule)
        codes[:end], scales[:end] = part.view(torch.uint8), store_scales(shared, -1)
        return codes, scales
    next_pair = 0
    for span in ranges:
        part, shared = quantise_blocks(x[span.as_slice], 0, rule)
        codes[span.as_slice] = part.view(torch.uint8)
        pairs = store_scales(shared, 0)
        first = next_pair if kind == COUNTS else span.start // _PAIR + span.weight
        scales[first : first + pairs.size(0)] = pairs
        next_pair += pairs.size(0)
    return codes, scales

"""npu_trans_quant_param: what may be passed, and what comes back.

scale is float32, (n,) or (1, n), and without an offset also (g, 1) or (g, n), one row for each group of a
grouped matmul. A one-dimensional scale and offset are equally long, or one of them has one element; beside
a (1, n) scale the offset has the same shape. Nothing is empty. round_mode is 0 (also None), to truncate, or
1, to round. The result is int64.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.meta.rules import Rules, Size, empty, statically_known_true, sym_or
from graph_quant.quant_params import ROUND_HALF_EVEN, TRUNCATE

OPERATOR = "npu_trans_quant_param"
RULES = Rules(OPERATOR)


@dataclass(frozen=True)
class Plan:
    """How the call is carried out: ``widen_scale`` when offset is, or may be, longer than scale."""

    shape: tuple[Size, ...]
    widen_scale: bool
    round_mode: int


def check(scale: torch.Tensor, offset: torch.Tensor | None = None, round_mode: int | None = 0) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    RULES.one_device(scale=scale, offset=offset)
    RULES.dtype("scale", scale, (torch.float32,))
    RULES.rank("scale", scale, 1, 2)
    RULES.not_empty("scale", scale)
    mode = TRUNCATE if round_mode is None else round_mode
    RULES.require(mode in (TRUNCATE, ROUND_HALF_EVEN), lambda: f"round_mode must be None, 0 or 1, got {round_mode}")
    if offset is None:
        return Plan(tuple(scale.shape), False, mode)
    RULES.dtype("offset", offset, (torch.float32,))
    RULES.rank("offset", offset, scale.dim(), why=", as scale has")
    RULES.not_empty("offset", offset)
    if scale.dim() == 2:
        RULES.equal("scale.size(0) beside an offset", scale.size(0), "1", 1)
        for dim in range(2):
            RULES.equal(f"offset.size({dim})", offset.size(dim), f"scale.size({dim})", scale.size(dim))
        return Plan(tuple(scale.shape), False, mode)
    return _check_vectors(scale.size(0), offset.size(0), mode)


def _check_vectors(scale: Size, offset: Size, mode: int) -> Plan:
    if statically_known_true(offset == 1):
        return Plan((scale,), False, mode)
    if statically_known_true(scale == 1):
        return Plan((offset,), True, mode)
    RULES.require(
        sym_or(scale == offset, scale == 1, offset == 1),
        lambda: f"scale.size(0) and offset.size(0) must be equal, or one of them 1, got {scale} and {offset}",
    )
    if statically_known_true(scale == offset):
        return Plan((scale,), False, mode)
    return Plan((torch.sym_max(scale, offset),), True, mode)


def infer(scale: torch.Tensor, offset: torch.Tensor | None = None, round_mode: int | None = 0) -> torch.Tensor:
    """The result of a call, without its values."""
    return empty(scale, check(scale, offset, round_mode).shape, torch.int64)

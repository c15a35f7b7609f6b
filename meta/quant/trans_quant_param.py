"""npu_trans_quant_param: what may be passed, and what comes back.

scale is float32, (n,) or (1, n); the document also has a row for each group of a grouped matmul, which only Ascend 950
takes. A one-dimensional scale and offset are equally long, or one of them has one element; beside a (1, n) scale the
offset has the same shape. No tensor is empty. round_mode is 0 (also None), to truncate, or 1, to round. The result is
int64.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import ND, Rules, Size, statically_known_true, sym_or
from graph_quant.quant_params import ROUND_HALF_EVEN, TRUNCATE
from graph_quant.reference.quant.trans_quant_param import trans_quant_param as reference
from torch import Tensor


@dataclass(frozen=True)
class QuantParamPlan(Plan):
    """``widen_scale`` if offset is, or may be, longer than scale."""

    widen_scale: bool
    mode: int


@operator("npu_trans_quant_param", reference=reference, chips=A2_A3_950)
def trans_quant_param(rules: Rules, scale: Tensor, offset: Tensor | None, round_mode: int | None) -> QuantParamPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("scale", scale, (torch.float32,))
    rules.rank("scale", scale, 1, 2)
    rules.not_empty("scale", scale)
    if scale.dim() == 2:
        rules.equal("scale.size(0)", scale.size(0), "1, in two dimensions", 1)
    rules.format("scale", scale, ND)
    mode = TRUNCATE if round_mode is None else round_mode
    rules.require(mode in (TRUNCATE, ROUND_HALF_EVEN), lambda: f"round_mode must be None, 0 or 1, got {round_mode}")
    if offset is None:
        return _plan(tuple(scale.shape), False, mode)
    rules.dtype("offset", offset, (torch.float32,))
    rules.rank("offset", offset, scale.dim(), why=", as scale has")
    rules.not_empty("offset", offset)
    rules.format("offset", offset, ND)
    if scale.dim() == 2:
        for dim in range(2):
            rules.equal(f"offset.size({dim})", offset.size(dim), f"scale.size({dim})", scale.size(dim))
        return _plan(tuple(scale.shape), False, mode)
    return _check_vectors(rules, scale.size(0), offset.size(0), mode)


def _check_vectors(rules: Rules, scale: Size, offset: Size, mode: int) -> QuantParamPlan:
    if statically_known_true(offset == 1):
        return _plan((scale,), False, mode)
    if statically_known_true(scale == 1):
        return _plan((offset,), True, mode)
    rules.require(
        sym_or(scale == offset, scale == 1, offset == 1),
        lambda: f"scale.size(0) and offset.size(0) must be equal, or one of them 1, got {scale} and {offset}",
    )
    if statically_known_true(scale == offset):
        return _plan((scale,), False, mode)
    return _plan((torch.sym_max(scale, offset),), True, mode)


def _plan(shape: tuple[Size, ...], widen_scale: bool, mode: int) -> QuantParamPlan:
    return QuantParamPlan((Result(shape, torch.int64),), widen_scale, mode)

"""_npu_dropout, _dropout_with_byte_mask, their masks and gradients: argument rules and results.

Masks are uint8: a bit for each element, lowest first, padded to 128 elements; or a byte for each element.
"""

from __future__ import annotations

import math

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.reference.activation import dropout as reference
from graph_quant.reference.rng import ALIGNED
from torch import Tensor


def _check_probability(rules: Rules, p: float) -> None:
    rules.require(0 <= p <= 1, lambda: f"p must lie in [0, 1], got {p}")


def _check_values(rules: Rules, name: str, x: Tensor, p: float) -> Result:
    _check_probability(rules, p)
    rules.dtype(name, x, FLOATS)
    return Result(tuple(x.shape), x.dtype)


def _bit_mask_for(count: Size) -> Result:
    return Result(((count + ALIGNED - 1) // ALIGNED * (ALIGNED // 8),), torch.uint8)


@operator("_npu_dropout_gen_mask.Tensor", reference=reference.gen_mask)
def gen_mask(
    rules: Rules,
    x: Tensor,
    size: list[int],
    p: float,
    seed: int,  # noqa: ARG001 - any
    offset: int,
    parallel: bool | None,  # noqa: ARG001 - the stream that samples
    sync: bool | None,  # noqa: ARG001
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    _check_probability(rules, p)
    rules.dtype("input", x, FLOATS)
    rules.require(all(length >= 0 for length in size), lambda: f"size must have no number below 0, got {list(size)}")
    rules.require(offset >= 0, lambda: f"offset must be at least 0, got {offset}")
    return Plan((_bit_mask_for(math.prod(size)),))


@operator("_npu_dropout", reference=reference.dropout)
def dropout(rules: Rules, x: Tensor, p: float) -> Plan:
    """Check a call against the documented rules and return its plan."""
    return Plan((_check_values(rules, "input", x, p), _bit_mask_for(x.numel())))


@operator("_dropout_with_byte_mask", reference=reference.dropout_by_bytes)
def dropout_by_bytes(rules: Rules, x: Tensor, p: float) -> Plan:
    """Check a call against the documented rules and return its plan."""
    return Plan((_check_values(rules, "input", x, p), Result(tuple(x.shape), torch.uint8)))


def _check_bits(rules: Rules, x: Tensor, mask: Tensor) -> None:
    rules.dtype("mask", mask, (torch.uint8,))
    rules.rank("mask", mask, 1)
    wanted = _bit_mask_for(x.numel()).shape[0]
    rules.equal("mask.size(0)", mask.size(0), f"the bytes for {x.numel()} elements", wanted)


@operator("npu_dropout_do_mask", reference=reference.do_mask)
def do_mask(rules: Rules, x: Tensor, mask: Tensor, p: float) -> Plan:
    """Check a call against the documented rules and return its plan."""
    result = _check_values(rules, "input", x, p)
    _check_bits(rules, x, mask)
    return Plan((result, Result(tuple(mask.shape), mask.dtype)))


@operator("npu_dropout_backward", reference=reference.apply_mask)
def backward(rules: Rules, x: Tensor, mask: Tensor, p: float) -> Plan:
    """Check a call against the documented rules and return its plan."""
    result = _check_values(rules, "grad_output", x, p)
    _check_bits(rules, x, mask)
    return Plan((result,))


@operator("_dropout_with_byte_mask_backward", reference=reference.apply_byte_mask)
def backward_by_bytes(rules: Rules, x: Tensor, mask: Tensor, p: float) -> Plan:
    """Check a call against the documented rules and return its plan."""
    result = _check_values(rules, "grad_output", x, p)
    rules.dtype("mask", mask, (torch.uint8,))
    rules.rank("mask", mask, x.dim())
    for dim in range(x.dim()):
        rules.equal(f"mask.size({dim})", mask.size(dim), f"grad_output.size({dim})", x.size(dim))
    return Plan((result,))

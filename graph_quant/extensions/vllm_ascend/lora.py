"""bgmv_shrink, bgmv_expand, sgmv_shrink and sgmv_expand: the two products of LoRA adapters.

``shrink`` writes ``scale * (x @ A.T)`` over the rows of y, in float32. ``expand`` adds ``x @ B.T`` to a slice of the
columns of y, in float32, and rounds once. Each row takes the adapter of its index: in ``bgmv`` of its token, in
``sgmv`` of its sequence, whose lengths are ``seq_len``. Rows with a negative index, or beyond all sequences, stay as
they are.

The kernels read memory by address: every tensor must be contiguous.
"""

from __future__ import annotations

import torch
from graph_quant.meta import Plan, Rules, operator
from graph_quant.meta.attention.sparse_rules import HALVES
from graph_quant.reference.checks import value_check
from graph_quant.reference.index_checks import check_range
from torch import Tensor

_RANKS, _ALIGNED = (8, 16, 32, 64), 16


@value_check
def checked_adapters(indices: Tensor, adapters: int, op: str, name: str) -> Tensor:
    """``indices``, refused where one is not an adapter; negative ones select none."""
    check_range(op, name, indices.clamp(min=-1), -1, adapters)
    return indices


def _products(x: Tensor, weight: Tensor, adapters: Tensor) -> Tensor:
    """Each row of x times the matrix of its adapter, in float32; 0 without an adapter."""
    matrices = weight.reshape(weight.size(0), weight.size(-2), weight.size(-1)).float()
    products = torch.zeros((x.size(0), matrices.size(1)))
    for adapter in torch.unique(adapters[adapters >= 0]).tolist():
        rows = adapters == adapter
        products[rows] = x[rows].float() @ matrices[adapter].t()
    return products


def _shrink(x: Tensor, weight: Tensor, adapters: Tensor, y: Tensor, scale: float) -> tuple[()]:
    products = _products(x, weight, adapters) * scale
    y.copy_(torch.where((adapters >= 0).unsqueeze(-1), products, y))
    return ()


def _expand(x: Tensor, weight: Tensor, adapters: Tensor, y: Tensor, offset: int, size: int) -> Tensor:
    target = y.narrow(1, offset, size)
    target.copy_(target.float() + _products(x, weight, adapters))
    return y


def _of_tokens(indices: Tensor, seq_len: Tensor, rows: int) -> Tensor:
    """The adapter of each token; -1 beyond all sequences."""
    adapters = indices.repeat_interleave(seq_len.clamp(min=0))[:rows]
    return torch.cat((adapters, adapters.new_full((rows - adapters.size(0),), -1)))


def bgmv_shrink(x: Tensor, weight: Tensor, indices: Tensor, y: Tensor, scale: float) -> tuple[()]:
    """Write the product of each row."""
    return _shrink(x, weight, checked_adapters(indices, weight.size(0), "bgmv_shrink", "indices"), y, scale)


def bgmv_expand(x: Tensor, weight: Tensor, indices: Tensor, y: Tensor, slice_offset: int, slice_size: int) -> Tensor:
    """Add the product of each row; return y."""
    adapters = checked_adapters(indices, weight.size(0), "bgmv_expand", "indices")
    return _expand(x, weight, adapters, y, slice_offset, slice_size)


def sgmv_shrink(x: Tensor, weight: Tensor, lora_indices: Tensor, seq_len: Tensor, y: Tensor, scale: float) -> tuple[()]:
    """Write the product of each row."""
    chosen = checked_adapters(lora_indices, weight.size(0), "sgmv_shrink", "lora_indices")
    return _shrink(x, weight, _of_tokens(chosen, seq_len, x.size(0)), y, scale)


def sgmv_expand(
    x: Tensor, weight: Tensor, lora_indices: Tensor, seq_len: Tensor, y: Tensor, slice_offset: int, slice_size: int
) -> Tensor:
    """Add the product of each row; return y."""
    chosen = checked_adapters(lora_indices, weight.size(0), "sgmv_expand", "lora_indices")
    return _expand(x, weight, _of_tokens(chosen, seq_len, x.size(0)), y, slice_offset, slice_size)


def _check(rules: Rules, x: Tensor, weight: Tensor, y: Tensor) -> None:
    rules.rank("x", x, 2)
    rules.rank("y", y, 2)
    rules.rank("weight", weight, 3, 4)
    if weight.dim() == 4:
        rules.equal("weight.size(1)", weight.size(1), "1", 1)
    rules.equal("y.size(0)", y.size(0), "x.size(0)", x.size(0))
    for name, tensor in (("x", x), ("weight", weight), ("y", y)):
        rules.require(tensor.is_contiguous(), lambda: f"{name} must be contiguous, got {list(tensor.stride())}")  # noqa: B023


def _check_shrink(rules: Rules, x: Tensor, weight: Tensor, y: Tensor) -> Plan:
    _check(rules, x, weight, y)
    rules.dtype("x", x, HALVES)
    rules.dtype("weight", weight, (x.dtype,), ", the dtype of x")
    rules.dtype("y", y, (torch.float32,))
    rules.equal("weight.size(-2)", weight.size(-2), "y.size(1)", y.size(1))
    rules.equal("weight.size(-1)", weight.size(-1), "x.size(1)", x.size(1))
    wider = x.size(1) > y.size(1)
    rules.require(wider, lambda: f"x.size(1) must be larger than y.size(1), got {x.size(1)} and {y.size(1)}")
    return Plan(())


def _check_expand(rules: Rules, x: Tensor, weight: Tensor, y: Tensor, offset: int, size: int) -> Plan:
    _check(rules, x, weight, y)
    rules.dtype("y", y, HALVES)
    rules.dtype("weight", weight, (y.dtype,), ", the dtype of y")
    rules.dtype("x", x, (torch.float32,))
    rules.one_of("x.size(1)", x.size(1), _RANKS, ", the rank")
    rules.equal("weight.size(-2)", weight.size(-2), "slice_size", size)
    rules.equal("weight.size(-1)", weight.size(-1), "x.size(1)", x.size(1))
    rules.require(x.size(1) <= size, lambda: f"slice_size must be at least x.size(1), got {size} and {x.size(1)}")
    rules.require(size % _ALIGNED == 0, lambda: f"slice_size must be a multiple of {_ALIGNED}, got {size}")
    rules.at_least("slice_offset", offset, 0)
    end = offset + size
    rules.require(
        end <= y.size(1), lambda: f"slice_offset + slice_size must be at most y.size(1), got {end} and {y.size(1)}"
    )
    return Plan(("y",))


def _check_indices(rules: Rules, name: str, indices: Tensor, other: str, size: int | torch.SymInt) -> None:
    rules.dtype(name, indices, (torch.int64,))
    rules.rank(name, indices, 1)
    rules.equal(f"{name}.size(0)", indices.size(0), other, size)


def _check_sequences(rules: Rules, lora_indices: Tensor, seq_len: Tensor) -> None:
    rules.dtype("seq_len", seq_len, (torch.int64,))
    rules.rank("seq_len", seq_len, 1)
    _check_indices(rules, "lora_indices", lora_indices, "seq_len.size(0)", seq_len.size(0))


@operator("_C_ascend::bgmv_shrink", reference=bgmv_shrink)
def rules_of_bgmv_shrink(
    rules: Rules,
    x: Tensor,
    weight: Tensor,
    indices: Tensor,
    y: Tensor,
    scale: float,  # noqa: ARG001
) -> Plan:
    """Check a call by the extension's host code; it returns nothing."""
    _check_indices(rules, "indices", indices, "x.size(0)", x.size(0))
    return _check_shrink(rules, x, weight, y)


@operator("_C_ascend::bgmv_expand", reference=bgmv_expand)
def rules_of_bgmv_expand(
    rules: Rules, x: Tensor, weight: Tensor, indices: Tensor, y: Tensor, slice_offset: int, slice_size: int
) -> Plan:
    """Check a call by the extension's host code; it returns y."""
    _check_indices(rules, "indices", indices, "x.size(0)", x.size(0))
    return _check_expand(rules, x, weight, y, slice_offset, slice_size)


@operator("_C_ascend::sgmv_shrink", reference=sgmv_shrink)
def rules_of_sgmv_shrink(
    rules: Rules,
    x: Tensor,
    weight: Tensor,
    lora_indices: Tensor,
    seq_len: Tensor,
    y: Tensor,
    scale: float,  # noqa: ARG001
) -> Plan:
    """Check a call by the extension's host code; it returns nothing."""
    _check_sequences(rules, lora_indices, seq_len)
    return _check_shrink(rules, x, weight, y)


@operator("_C_ascend::sgmv_expand", reference=sgmv_expand)
def rules_of_sgmv_expand(
    rules: Rules,
    x: Tensor,
    weight: Tensor,
    lora_indices: Tensor,
    seq_len: Tensor,
    y: Tensor,
    slice_offset: int,
    slice_size: int,
) -> Plan:
    """Check a call by the extension's host code; it returns y."""
    _check_sequences(rules, lora_indices, seq_len)
    return _check_expand(rules, x, weight, y, slice_offset, slice_size)

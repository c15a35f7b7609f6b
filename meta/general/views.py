"""npu_reshape, npu_slice, npu_pad, npu_broadcast and npu_indexing: copies of elements of the input.

Sizes are explicit: -1 is not inferred. npu_reshape copies memory, so its input must be contiguous; with can_refresh the
device writes no result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graph_quant.chip import A2_A3_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.general import views as reference
from torch import Tensor


@operator("npu_reshape", reference=reference.reshape, chips=A2_A3_950)
def reshape(rules: Rules, input: Tensor, shape: Sequence[int], can_refresh: bool) -> Plan:  # noqa: A002
    """Check a call against the documented rules and return its plan."""
    _check_sizes(rules, "shape", shape)
    count = 1
    for size in shape:
        count = count * size
    rules.equal("the number of elements of shape", count, "that of input", input.numel())
    rules.require(
        input.is_contiguous(), lambda: f"input must be contiguous, for its memory is copied, got {input.stride()}"
    )
    rules.require(not can_refresh, lambda: "can_refresh must be False, for with it no result is written, got True")
    return Plan((Result(tuple(shape), input.dtype),))


@operator("npu_slice", reference=reference.slice_dims, chips=A2_A3_950)
def slice_dims(rules: Rules, input: Tensor, offsets: Sequence[int], size: Sequence[int]) -> Plan:  # noqa: A002
    """Check a call against the documented rules and return its plan."""
    for name, sizes in (("offsets", offsets), ("size", size)):
        rules.equal(f"len({name})", len(sizes), "input.dim()", input.dim())
        _check_sizes(rules, name, sizes)
    for dim, (start, length) in enumerate(zip(offsets, size, strict=True)):
        _check_end(rules, dim, start, length, input.size(dim))
    return Plan((Result(tuple(size), input.dtype),))


@operator("npu_pad", reference=reference.pad, chips=A2_A3_950)
def pad(rules: Rules, input: Tensor, paddings: Sequence[int]) -> Plan:  # noqa: A002
    """Check a call against the documented rules and return its plan."""
    _check_sizes(rules, "paddings", paddings)
    rules.require(
        len(paddings) % 2 == 0 and len(paddings) <= 2 * input.dim(),
        lambda: f"len(paddings) must be even and at most twice input.dim(), got {len(paddings)} and {input.dim()}",
    )
    sizes = list(input.shape)
    for dim in range(len(paddings) // 2):
        sizes[dim] = sizes[dim] + paddings[2 * dim] + paddings[2 * dim + 1]
    return Plan((Result(tuple(sizes), input.dtype),))


@operator("npu_broadcast", reference=reference.broadcast, chips=A2_A3_950)
def broadcast(rules: Rules, input: Tensor, size: Sequence[int]) -> Plan:  # noqa: A002
    """Check a call against the documented rules and return its plan."""
    _check_sizes(rules, "size", size)
    rules.require(
        len(size) >= input.dim(), lambda: f"len(size) must be at least input.dim(), got {len(size)} and {input.dim()}"
    )
    for dim in range(1, input.dim() + 1):
        rules.one_or(f"input.size(-{dim})", input.size(-dim), f"size[-{dim}]", size[-dim])
    return Plan((Result(tuple(size), input.dtype),))


def _check_end(rules: Rules, dim: int, start: int, length: int, size: Size) -> None:
    rules.require(
        start + length <= size,
        lambda: f"offsets[{dim}] + size[{dim}] must be at most input.size({dim}), got {start} + {length} and {size}",
    )


def _check_sizes(rules: Rules, name: str, sizes: Sequence[int]) -> None:
    for index, size in enumerate(sizes):
        rules.at_least(f"{name}[{index}]", size, 0)


@dataclass(frozen=True)
class IndexingPlan(Plan):
    """``ranges`` are the indices that are kept in each dimension."""

    ranges: tuple[range, ...]


@operator("npu_indexing", reference=reference.indexing, chips=A2_A3_950)
def indexing(
    rules: Rules,
    input: Tensor,  # noqa: A002
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> IndexingPlan:
    """Check a call against the documented rules and return its plan."""
    for name, numbers in (("begin", begin), ("end", end), ("strides", strides)):
        rules.equal(f"len({name})", len(numbers), "input.dim()", input.dim())
    masks = {"ellipsis_mask": ellipsis_mask, "new_axis_mask": new_axis_mask, "shrink_axis_mask": shrink_axis_mask}
    for name, mask in masks.items():
        rules.one_of(name, mask, (0,), why=" on the host")
    ranges = []
    for dim, stride in enumerate(strides):
        if stride == 0:
            rules.refuse(f"strides[{dim}] must not be 0, got 0")
        start = None if begin_mask >> dim & 1 else begin[dim]
        stop = None if end_mask >> dim & 1 else end[dim]
        ranges.append(range(*slice(start, stop, stride).indices(int(input.size(dim)))))
    return IndexingPlan((Result(tuple(map(len, ranges)), input.dtype),), tuple(ranges))

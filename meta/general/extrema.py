"""npu_max and npu_min along a dimension with their gradients, and npu_sort_v2: what may be passed, what comes back.

Indices are int32. npu_sort_v2 is of the last dimension, and compares halves.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.reference.general import extrema as reference
from torch import Tensor


def _kept(rules: Rules, sizes: Sequence[Size], dim: int, keepdim: bool) -> tuple[Size, ...]:
    rank = len(sizes)
    rules.require(-rank <= dim < rank, lambda: f"dim must lie in [{-rank}, {rank}), got {dim}")
    place = dim % rank
    return (*sizes[:place], *([1] if keepdim else []), *sizes[place + 1 :])


def _plan(rules: Rules, x: Tensor, dim: int, keepdim: bool) -> Plan:
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 1, 8)
    rules.not_empty("input", x)
    shape = _kept(rules, x.shape, dim, keepdim)
    return Plan((Result(shape, x.dtype), Result(shape, torch.int32)))


@operator("npu_max.dim", reference=reference.largest)
def largest(rules: Rules, input: Tensor, dim: int, keepdim: bool) -> Plan:  # noqa: A002
    """The plan of a call that the documents allow; any other call is refused."""
    return _plan(rules, input, dim, keepdim)


@operator("npu_min.dim", reference=reference.smallest)
def smallest(rules: Rules, input: Tensor, dim: int, keepdim: bool) -> Plan:  # noqa: A002
    """The plan of a call that the documents allow; any other call is refused."""
    return _plan(rules, input, dim, keepdim)


@operator("npu_max_backward", reference=reference.backward)
@operator("npu_min_backward", reference=reference.backward)
def backward(rules: Rules, grad: Tensor, dim: int, indices: Tensor, sizes: Sequence[Size], keepdim: bool) -> Plan:
    """The plan of a call as autograd makes it; any other call is refused."""
    rules.dtype("grad", grad, FLOATS)
    rules.dtype("indices", indices, (torch.int32,))
    kept = _kept(rules, tuple(sizes), dim, keepdim)
    for name, each in (("grad", grad), ("indices", indices)):
        rules.equal(f"{name}.dim()", each.dim(), "the rank of what was reduced", len(kept))
        for place, size in enumerate(kept):
            rules.equal(f"{name}.size({place})", each.size(place), "that of what was reduced", size)
    return Plan((Result(tuple(sizes), grad.dtype),))


@operator("npu_sort_v2", reference=reference.ordered)
def ordered(rules: Rules, input: Tensor, dim: int, descending: bool) -> Plan:  # noqa: A002, ARG001 - either
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("input", input, (torch.float16, torch.float32))
    rules.rank("input", input, 1, 8)
    rules.one_of("dim", dim, (-1, input.dim() - 1), why=", the last one")
    return Plan((Result(tuple(input.shape), input.dtype),))

"""The distribution of quantised values, and the share that is saturated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, fx

from ... import int4
from ...destination import INT4, INT8, UINT8, Destination
from ...host.kernels import facts
from .operators import name_of


@dataclass(frozen=True)
class Distribution:
    """The count of each value of the destination, from the lowest to the highest."""

    destination: Destination
    reference: tuple[int, ...]
    graph: tuple[int, ...]

    @property
    def saturation(self) -> tuple[float, float]:
        """The share of saturated values: in the reference, and in the graph."""
        return _saturation(self.reference), _saturation(self.graph)


def destination_of(node: fx.Node, ge_types: Iterable[str], value: Tensor) -> Destination | None:
    """The destination of a quantised result; None for other results. int4 is packed in int32.

    ``ge_types`` are the types of the GE nodes that ``node`` became.
    """
    if value.dtype == torch.int32 and any(facts(candidate).packs for candidate in ge_types):
        source = node.all_input_nodes[0].meta.get("val") if node.all_input_nodes else None
        narrower = isinstance(source, Tensor) and value.dim() and source.dim() and source.size(-1) != value.size(-1)
        return INT4 if narrower else None
    if not name_of(node).startswith("npu."):
        return None
    return next((candidate for candidate in (INT8, UINT8) if candidate.storage == value.dtype), None)


def elements(value: Tensor, destination: Destination | None) -> Tensor:
    """The quantised elements; packed int4 is unpacked."""
    packed = destination is INT4 and value.dtype == INT4.storage
    return int4.unpack(value) if packed else value


def distribution(destination: Destination, reference: Tensor, graph: Tensor) -> Distribution:
    """Count the elements of both sides."""
    return Distribution(destination, _counts(destination, reference), _counts(destination, graph))


def _counts(destination: Destination, values: Tensor) -> tuple[int, ...]:
    levels = destination.high - destination.low + 1
    flat = values.reshape(-1).to(torch.int64) - destination.low
    inside = flat[(flat >= 0) & (flat < levels)]  # a graph with the wrong dtype may leave the range
    return tuple(torch.bincount(inside, minlength=levels).tolist())


def _saturation(counts: tuple[int, ...]) -> float:
    total = sum(counts)
    return (counts[0] + counts[-1]) / total if total else 0.0

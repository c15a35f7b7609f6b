"""Compares what each fusion computes with what it replaces, on the inputs of a call."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from .apply import FUSIONS, FusionFinding, FusionReport, apply_fusion

_INT8_LARGEST = 127


@dataclass(frozen=True)
class FusionDeviation:
    """A fused result beyond the bound of its fusion.

    Attributes:
        finding: The fusion, and the module and line of what it replaced.
        error: The largest difference, relative to the largest magnitude; infinite where a number became NaN.
        bound: What the fusion allows.
    """

    finding: FusionFinding
    error: float
    bound: float

    def __str__(self) -> str:
        return f"{self.finding} differs by {self.error:.3g} of the largest value, more than {self.bound:.3g}"


def check_fusions(gm: GraphModule, names: Sequence[str], inputs: Sequence[Any]) -> list[FusionDeviation]:
    """Fuse a copy of a graph step by step, and compare every replaced value, computed from unfused ones.

    Args:
        gm: The unfused ATen graph. It is not changed.
        names: Names of fusions.
        inputs: The inputs of a call; the graph may write to them.

    Returns:
        The results that differ by more than the bound of their fusion.
    """
    deviations: list[FusionDeviation] = []
    fused = GraphModule(gm, copy.deepcopy(gm.graph))
    for name in [name for name in FUSIONS if name in names]:
        before = GraphModule(fused, copy.deepcopy(fused.graph))
        replaced = apply_fusion(fused.graph, FUSIONS[name], FusionReport())
        if replaced:
            copies = [value.clone() if isinstance(value, Tensor) else value for value in inputs]
            values = _run(before, copies, {})
            new_values = _run(fused, copies, values)
            for finding, old, new in replaced:
                if old in values and new in new_values:
                    bound = FUSIONS[name].bound
                    error = _deviation(values[old], new_values[new], steps=1 if bound else 0)
                    if error > bound:
                        deviations.append(FusionDeviation(finding, error, bound))
    return deviations


def _run(gm: GraphModule, inputs: Sequence[Any], known: dict[str, Any]) -> dict[str, Any]:
    """The value of each node by its name; those that are known are not computed."""
    values = dict(known)
    remaining = iter(inputs)

    def value_of(node: Node) -> Any:
        return values[node.name]

    for node in gm.graph.nodes:
        if node.op == "placeholder":
            values.setdefault(node.name, next(remaining))
        elif node.op == "get_attr":
            values.setdefault(node.name, getattr(gm, str(node.target)))
        elif node.op == "call_function" and node.name not in values:
            values[node.name] = node.target(*map_arg(node.args, value_of), **map_arg(node.kwargs, value_of))
    return values


def _deviation(old: Any, new: Any, steps: int) -> float:
    """The largest difference relative to the largest magnitude, in int8 beyond so many steps.

    Indices are not compared: where values tie, a fusion may choose another.
    """
    if not isinstance(old, Tensor) or not isinstance(new, Tensor) or old.numel() == 0:
        return 0.0
    if old.shape != new.shape or old.dtype != new.dtype:
        return math.inf
    if torch.equal(old, new) or not (old.is_floating_point() or old.dtype == torch.int8):
        return 0.0
    is_finite = old.isfinite()
    wide, other = (tensor[is_finite].double() for tensor in (old, new))
    largest = _INT8_LARGEST if old.dtype == torch.int8 else wide.abs().max().item() if wide.numel() else 0.0
    difference = (other - wide).abs().max().item() if wide.numel() else 0.0
    if math.isnan(difference) or not largest:
        return math.inf if difference else 0.0
    return max(difference - (steps if old.dtype == torch.int8 else 0), 0.0) / largest

"""``merge_linears_``: linears that read one input store their weights as one, so that a graph can multiply once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from graph_quant.nn.dynamic_w8a8 import DynamicW8A8Linear
from graph_quant.nn.merged_static import MergedStaticLinear, can_merge_static, merge_static
from graph_quant.nn.static_w8a8 import StaticW8A8Linear
from torch import Tensor, nn

# Names of linears that read one input in the models of transformers, vLLM and DeepSeek, in the order of storage.
GROUPS = (
    ("q_proj", "k_proj", "v_proj"),
    ("gate_proj", "up_proj"),
    ("q_a_proj", "kv_a_proj_with_mqa"),
    ("w1", "w3"),
)


class MergedWeights(nn.Module):
    """The weights of several ``DynamicW8A8Linear`` with one input.

    Args:
        weight: int8 (n, k), the rows of all linears.
        scale: float32 (n,).
        bias: float32 (n,), or None.
        smooth: (k,), or None.
    """

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None, smooth: Tensor | None) -> None:
        super().__init__()
        self.weight: Tensor
        self.scale: Tensor
        self.bias: Tensor | None
        self.smooth: Tensor | None
        for name, tensor in {"weight": weight, "scale": scale, "bias": bias, "smooth": smooth}.items():
            self.register_buffer(name, tensor)


class MergedLinear(DynamicW8A8Linear):
    """A linear whose weights are rows of ``MergedWeights``; everything else is as in ``DynamicW8A8Linear``.

    Args:
        merged: The weights of all linears.
        start: Its first row.
        end: The row after its last one.
    """

    def __init__(self, merged: MergedWeights, start: int, end: int) -> None:
        nn.Module.__init__(self)
        self.merged = merged
        self.start = start
        self.end = end

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """Rows of the merged weight, without a copy."""
        return self.merged.weight[self.start : self.end]

    @property
    def scale(self) -> Tensor:  # type: ignore[override]
        """The scales of its rows, without a copy."""
        return self.merged.scale[self.start : self.end]

    @property
    def bias(self) -> Tensor | None:  # type: ignore[override]
        """The bias of its rows, without a copy."""
        return None if self.merged.bias is None else self.merged.bias[self.start : self.end]

    @property
    def smooth(self) -> Tensor | None:  # type: ignore[override]
        """The smoothing scales, which all linears share."""
        return self.merged.smooth


def merge_linears_(model: nn.Module, groups: Sequence[Sequence[str]] = GROUPS) -> list[str]:
    """Let linears that read one input store their weights as one, in place.

    Results keep every bit, and eager calls are as before. The fusion ``merged_products`` turns the products of a group
    into one; without it, a graph of the backend npu slices the weights in each call, so use both or neither. Distribute
    a model over ranks before, and save it before: each linear has the weights of its group as ``merged``.

    Args:
        model: A model with linears that ``quantize_`` replaced by ``DynamicW8A8Linear`` or ``StaticW8A8Linear``. Static
            ones are merged where their input is quantised alike, which smoothing prevents.
        groups: The names of linears that are children of one module and read the same input.

    Returns:
        The names of the merged linears.

    Raises:
        ValueError: No linears were merged.

    Examples:
        >>> quantize_(model, DynamicW8A8())
        >>> merge_linears_(model)
    """
    merged: list[str] = []
    for path, parent in list(model.named_modules()):
        for names in groups:
            parts = _merge([getattr(parent, name, None) for name in names])
            for name, part in zip(names, parts, strict=False):
                setattr(parent, name, part)
                merged.append(f"{path}.{name}" if path else name)
    if not merged:
        wanted = "; ".join(", ".join(names) for names in groups)
        raise ValueError(
            f"merge_linears_: {type(model).__name__} has no group of DynamicW8A8Linear or StaticW8A8Linear named "
            f"{wanted} that quantise their input alike"
        )
    return merged


def _merge(linears: Sequence[object]) -> Sequence[nn.Module]:
    """The same linears with merged weights; none where they cannot be merged."""
    if len(set(map(id, linears))) < len(linears):
        return ()
    dynamic = [linear for linear in linears if type(linear) is DynamicW8A8Linear]
    static = [linear for linear in linears if type(linear) is StaticW8A8Linear]
    if len(dynamic) == len(linears) and _can_merge_dynamic(dynamic):
        weights = _merge_dynamic(dynamic)
        rows = [linear.weight.size(0) for linear in dynamic]
        parts: list[nn.Module] = [MergedLinear(weights, *bounds) for bounds in _bounds(rows)]
    elif len(static) == len(linears) and can_merge_static(static):
        static_weights = merge_static(static)
        rows = [linear.weight.size(1) for linear in static]
        parts = [MergedStaticLinear(static_weights, *bounds) for bounds in _bounds(rows)]
    else:
        return ()
    return [part.train(linear.training) for part, linear in zip(parts, dynamic or static, strict=True)]


def _bounds(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """The first and last row of parts of these sizes."""
    ends = [0, *accumulate(sizes)]
    return list(pairwise(ends))


def _can_merge_dynamic(linears: Sequence[DynamicW8A8Linear]) -> bool:
    """Whether all are of one input size, device and smoothing, with a bias or without."""
    first, *others = linears
    return all(
        linear.weight.size(1) == first.weight.size(1)
        and linear.weight.device == first.weight.device
        and (linear.bias is None) == (first.bias is None)
        and _is_same(linear.smooth, first.smooth)
        for linear in others
    )


def _is_same(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.dtype == other.dtype and torch.equal(one, other)


def _merge_dynamic(linears: Sequence[DynamicW8A8Linear]) -> MergedWeights:
    biases = [linear.bias for linear in linears if linear.bias is not None]
    return MergedWeights(
        torch.cat([linear.weight for linear in linears]),
        torch.cat([linear.scale for linear in linears]),
        torch.cat(biases) if biases else None,
        linears[0].smooth,
    )

"""``merge_linears_``: linears that read one input store their weights as one, so that a graph can multiply once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.nn.dynamic_w8a8 import DynamicW8A8Linear
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
        model: A model with linears that ``quantize_`` replaced by ``DynamicW8A8Linear``.
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
            linears = [getattr(parent, name, None) for name in names]
            if _can_merge(linears):
                for name, part in zip(names, _merge(linears), strict=True):  # type: ignore[arg-type]
                    setattr(parent, name, part)
                    merged.append(f"{path}.{name}" if path else name)
    if not merged:
        wanted = "; ".join(", ".join(names) for names in groups)
        raise ValueError(f"merge_linears_: {type(model).__name__} has no group of DynamicW8A8Linear named {wanted}")
    return merged


def _can_merge(linears: Sequence[object]) -> bool:
    """Whether all are dynamic linears of one input size, device and smoothing, with a bias or without."""
    if any(type(linear) is not DynamicW8A8Linear for linear in linears) or len(set(map(id, linears))) < len(linears):
        return False
    first, *others = (linear for linear in linears if isinstance(linear, DynamicW8A8Linear))
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


def _merge(linears: Sequence[DynamicW8A8Linear]) -> list[MergedLinear]:
    biases = [linear.bias for linear in linears if linear.bias is not None]
    merged = MergedWeights(
        torch.cat([linear.weight for linear in linears]),
        torch.cat([linear.scale for linear in linears]),
        torch.cat(biases) if biases else None,
        linears[0].smooth,
    )
    parts, start = [], 0
    for linear in linears:
        end = start + linear.weight.size(0)
        parts.append(MergedLinear(merged, start, end).train(linear.training))
        start = end
    return parts

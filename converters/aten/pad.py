"""Padding becomes PadV3: TorchAir has reflection and replication for images alone, and none for dynamic sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.converters import UPSTREAM
from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import converts, in_type
from graph_quant.releases.alternatives import guard_or_false
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten
_MODES = {
    "reflect": (aten.reflection_pad1d, aten.reflection_pad2d, aten.reflection_pad3d),
    "edge": (aten.replication_pad1d, aten.replication_pad2d, aten.replication_pad3d),
}


def _pairs(rank: int, padding: Sequence[Any]) -> list[Any]:
    """Paddings in order of dimensions; ATen lists them from the last dimension."""
    pairs = [padding[start : start + 2] for start in range(0, len(padding), 2)]
    return [0] * (2 * (rank - len(pairs))) + [size for pair in reversed(pairs) for size in pair]


def _paddings(x: Tensor, padding: Any) -> Tensor:
    """The paddings input of the node; dynamic sizes are reordered when the graph runs."""
    if not isinstance(padding, Tensor):
        return ge.Const(_pairs(x.rank, padding), dtype=DataType.DT_INT64)
    order = _pairs(x.rank, range(1, len(padding.meta) + 1))
    zero = ge.Const([0], dtype=DataType.DT_INT64)
    return ge.Gather(ge.ConcatV2([zero, in_type(DataType.DT_INT64, padding)], 0, N=2), order)


@converts(aten.constant_pad_nd.default)
def constant_pad(x: Tensor, pad: Any, value: Any = 0, meta_outputs: Any = None) -> Tensor:
    """PadV3 with a constant."""
    if not isinstance(pad, Tensor):
        return UPSTREAM[aten.constant_pad_nd.default](x, pad, value, meta_outputs=meta_outputs._meta)  # type: ignore[no-any-return]
    return ge.PadV3(x, _paddings(x, pad), in_type(meta_outputs.dtype, value))


@decomposes(aten.constant_pad_nd.default)
def decompose_negative_padding(x: torch.Tensor, pad: Sequence[Any], value: Any = 0) -> Any:
    """Replace negative paddings by slices. The sign of a dynamic size is that of the traced call."""
    if not any(isinstance(size, torch.SymInt) and guard_or_false(size < 0) for size in pad):
        return NotImplemented
    kept = []
    for index, size in enumerate(pad):
        if guard_or_false(size < 0):
            dim = x.dim() - 1 - index // 2
            x = x.narrow(dim, 0, x.size(dim) + size) if index % 2 else x.narrow(dim, -size, x.size(dim) + size)
        kept.append(0 if guard_or_false(size < 0) else size)
    return aten.constant_pad_nd.default(x, kept, value)


def _register(mode: str, overload: OpOverload) -> None:
    @converts(overload)
    def pad(x: Tensor, padding: Any, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
        return ge.PadV3(x, _paddings(x, padding), None, mode=mode, paddings_contiguous=True)

    pad.__name__ = pad.__qualname__ = str(overload)


def _decompose_negative(overload: OpOverload) -> None:
    """Use PyTorch's decomposition by index for negative paddings, which PadV3 does not support."""
    by_index = decomposition_table[overload]

    @decomposes(overload)
    def pad(x: torch.Tensor, padding: Sequence[int]) -> Any:
        return by_index(x, padding) if any(guard_or_false(size < 0) for size in padding) else NotImplemented


def _source_indices(size: Any, before: int, after: int, mode: str, device: torch.device) -> torch.Tensor:
    """The index that each element of a padded dimension is a copy of."""
    index = torch.arange(-before, size + after, device=device)
    if mode == "reflect":
        index = index.abs()
        return torch.where(index < size, index, 2 * (size - 1) - index)
    return index.clamp(0, size - 1)


def _decompose_gradient(overload: OpOverload, mode: str, dims: int) -> None:
    """Add each gradient to the element that was copied, in ATen's order of the sums."""

    @decomposes(overload)
    def gradient(grad_output: torch.Tensor, x: torch.Tensor, padding: Sequence[int]) -> torch.Tensor:
        batch = x.flatten(0, -dims - 1)
        index = torch.arange(batch.size(0), device=x.device)
        for axis in range(-dims, 0):
            before, after = padding[-2 * (axis + 1) :][:2]
            index = index.unsqueeze(-1) * x.size(axis) + _source_indices(x.size(axis), before, after, mode, x.device)
        zeros = x.new_zeros(x.numel())
        return zeros.index_put((index.reshape(-1),), grad_output.reshape(-1), accumulate=True).reshape(x.shape)


for _overload, _mode, _dims in (
    (aten.reflection_pad3d_backward.default, "reflect", 3),
    (aten.replication_pad2d_backward.default, "edge", 2),
    (aten.replication_pad3d_backward.default, "edge", 3),
):
    _decompose_gradient(_overload, _mode, _dims)

for _mode, _packets in _MODES.items():
    for _packet in _packets:
        _register(_mode, _packet.default)
        _decompose_negative(_packet.default)

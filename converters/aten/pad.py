"""Padding by reflection and replication, which TorchAir has for images alone, becomes PadV3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import converts
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
    """Paddings from the first dimension on; ATen lists them from the last."""
    pairs = [padding[at : at + 2] for at in range(0, len(padding), 2)]
    return [0] * (2 * (rank - len(pairs))) + [size for pair in reversed(pairs) for size in pair]


def _register(mode: str, overload: OpOverload) -> None:
    @converts(overload)
    def pad(x: Tensor, padding: Any, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
        if isinstance(padding, Tensor):
            raise NotImplementedError(
                f"{overload} is lowered with paddings that are known when the graph is built: "
                "pass integers, or compile with dynamic=False"
            )
        pads = ge.Const(_pairs(x.rank, padding), dtype=DataType.DT_INT64)
        return ge.PadV3(x, pads, None, mode=mode, paddings_contiguous=True)

    pad.__name__ = pad.__qualname__ = str(overload)


def _take_away(overload: OpOverload) -> None:
    """PadV3 knows no negative paddings; PyTorch's own decomposition picks elements by index."""
    by_index = decomposition_table[overload]

    @decomposes(overload)
    def pad(x: torch.Tensor, padding: Sequence[int]) -> Any:
        return by_index(x, padding) if any(isinstance(size, int) and size < 0 for size in padding) else NotImplemented


for _mode, _packets in _MODES.items():
    for _packet in _packets:
        _register(_mode, _packet.default)
        _take_away(_packet.default)

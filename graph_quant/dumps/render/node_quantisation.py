"""Describes what a node quantises to, how it is packed, and its quantisation parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...destination import ALL
from ...ge import CONST_TYPES, Node

if TYPE_CHECKING:
    from ..dump import Dump

_EXAMPLE_PARAMETER = 70507248869376  # from the document of npu_trans_quant_param
_MOST_PARAMETERS = 16
_DESTINATIONS = {destination.name: destination for destination in ALL}


def describe_quantisation(dump: Dump, node: Node, *, packs: bool) -> dict[str, Any] | None:
    """Describe destination, packing and parameters of a node; ``packs`` is whether it packs int4."""
    types = dump.inference.types[node.name]
    facts: dict[str, Any] = {}
    result = next((t for t in types if t.dtype in _DESTINATIONS and _DESTINATIONS[t.dtype].high), None)
    quantises = "Quant" in node.type and node.type != "TransQuantParamV2"
    if result is not None and (quantises or result.dtype == "int4"):
        destination = _DESTINATIONS[result.dtype]
        packing = f"{destination.packing} to an {destination.storage}" if destination.is_packed else "one element each"
        facts |= {"destination": destination.name, "packing": packing.replace("torch.", "")}
        facts["range"] = f"{destination.low} … {destination.high}"
    if packs or any(t.dtype == "int4" for t in types):
        facts["packed"] = True
    if parameters := _decode_parameters(dump, node):
        facts["parameters"] = parameters
    return facts or None


def _decode_parameters(dump: Dump, node: Node) -> dict[str, Any] | None:
    """Decode the 64-bit parameters that a node computes, or that a constant feeds to a matmul."""
    is_fed = node.type in CONST_TYPES and any(
        reader.type.startswith("QuantBatchMatmul") and reader.inputs[position].name == "scale"
        for reader, position in dump.consumers[node.name]
    )
    values = dump.inference.values.get(node.name, ()) if is_fed else _encode_parameters(dump, node)
    if node.type != "TransQuantParamV2" and not (
        is_fed and dump.inference.types[node.name][0].dtype in ("int64", "uint64")
    ):
        return None
    import torch

    from ...quant_params import decode

    whole = [value - (1 << 64) if value >= 1 << 63 else value for value in values[:_MOST_PARAMETERS]]
    scales, offsets = decode(torch.tensor(whole, dtype=torch.int64))
    shown = [
        f"{value}: scale {scale:.7g}, offset {offset}"
        for value, scale, offset in zip(whole, scales.tolist(), offsets.tolist(), strict=True)
    ]
    return {"example": str(whole[0] if whole else _EXAMPLE_PARAMETER), "values": shown}


def _encode_parameters(dump: Dump, node: Node) -> tuple[int, ...]:
    """Encode constants as TransQuantParamV2 does."""
    import torch

    from ...quant_params import encode

    fed = {edge.name: dump.inference.values.get(edge.node) for edge in node.inputs if edge.node}
    scale, offset = fed.get("scale"), fed.get("offset")
    if node.type != "TransQuantParamV2" or not scale or ("offset" in fed and not offset):
        return ()
    mode = node.proto.attr["round_mode"].i if "round_mode" in node.proto.attr else 0
    encoded = encode(torch.tensor(scale), torch.tensor(offset) if offset else None, mode)
    return tuple(encoded.tolist())

"""How engines divide a model's linears over the cards of a tensor-parallel group, by the names of the linears."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..joined_linears import JOINED, joined_name
from .layers import QuantisedLayer

COLUMN, ROW, WHOLE = "column", "row", "whole"
_ROW = frozenset({"o_proj", "down_proj", "out_proj", "w2", "wo"})
_COLUMN = frozenset(
    {name for names in JOINED.values() for name in names}
    | {"q_b_proj", "kv_b_proj", "w1", "w3", "lm_head", "embed_tokens", "qkv", "qkv_proj", "gate_up_proj"}
)


def kind_of(module: str) -> str:
    """How a module is divided: by its outputs, by its inputs, or not at all."""
    name = module.rpartition(".")[2]
    if name in _ROW:
        return ROW
    return COLUMN if name in _COLUMN else WHOLE


def is_key_or_value(module: str) -> bool:
    """Whether a linear computes keys or values, whose heads are repeated where there are fewer than cards."""
    return module.rpartition(".")[2] in ("k_proj", "v_proj")


def join(layers: Iterable[QuantisedLayer]) -> tuple[list[tuple[str, list[QuantisedLayer]]], list[str]]:
    """Group linears that engines join, by the joined name; also the joined names whose parts differ in scheme."""
    joined: dict[str, list[QuantisedLayer]] = {}
    for layer in layers:
        joined.setdefault(layer.name if ".experts." in layer.name else joined_name(layer.name), []).append(layer)
    mixed = [name for name, parts in joined.items() if len({(part.scheme, part.group) for part in parts}) > 1]
    return list(joined.items()), mixed


def shard(parts: list[QuantisedLayer], cards: int, config: Mapping[str, Any]) -> QuantisedLayer:
    """One card's part of a linear, or of several that are joined along their outputs.

    Raises:
        ValueError: A size does not divide.
    """
    first = parts[0]
    kind = kind_of(first.name)
    if cards == 1 or kind == WHOLE:
        return replace(first, outputs=sum(part.outputs for part in parts))
    if kind == ROW:
        if first.inputs % cards:
            raise ValueError(f"k, {first.inputs}, must be a multiple of the {cards} cards")
        inputs = first.inputs // cards
        if first.group and inputs % first.group:
            raise ValueError(
                f"k of a card, {first.inputs} / {cards} = {inputs}, must be a multiple of the group size {first.group}"
            )
        return replace(first, inputs=inputs)
    return replace(first, outputs=sum(_outputs(part, cards, config) for part in parts))


def _outputs(part: QuantisedLayer, cards: int, config: Mapping[str, Any]) -> int:
    heads = config.get("num_key_value_heads")
    repeated = is_key_or_value(part.name) and isinstance(heads, int) and heads < cards and cards % heads == 0
    divisor = heads if repeated and isinstance(heads, int) else cards
    if part.outputs % divisor:
        raise ValueError(f"n, {part.outputs}, must be a multiple of the {cards} cards")
    return part.outputs // divisor

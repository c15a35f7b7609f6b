"""What a dump states of its inputs, held against bounds before anything is computed, or loaded to compute it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...ge import OUTSIDE_TYPES, Node
from ..errors import DumpError, UnboundedSizeError
from .shapes import evaluate, stated, symbols_in

_MOST_SYMBOLS = 512
# Stands for every symbol where only growth is asked about.
_EXAMPLE = 64


def check_inputs(order: Iterable[Node]) -> None:
    """Refuse a dump with more symbols than a graph has, each of which costs milliseconds, and sizes without bounds."""
    names: set[str] = set()
    for node in order:
        for desc in node.proto.output_desc if node.type in OUTSIDE_TYPES else ():
            names.update(_symbols(node, desc))
    if len(names) > _MOST_SYMBOLS:
        raise DumpError(f"its inputs have {len(names)} symbols for sizes; up to {_MOST_SYMBOLS} can be followed")


def _symbols(node: Node, desc: Any) -> Iterable[str]:
    described = stated(desc)
    if not described.meta:
        return [f"{node.name}_{at}" for at, size in enumerate(described.dims or ()) if size < 0]
    names = [name for text in described.meta for name in symbols_in(text)]
    for text in described.meta:
        _check_growth(node, text, names)
    return names


def _check_growth(node: Node, text: str, names: list[str]) -> None:
    try:
        evaluate(text, dict.fromkeys(names, _EXAMPLE))
    except UnboundedSizeError as error:
        raise DumpError(f"{node.name}: {error}") from None
    except DumpError:
        return  # inference leaves it open, with a remark

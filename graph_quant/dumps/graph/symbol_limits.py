"""Limits on the symbols and sizes of a dump's inputs, checked before torch is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...ge import OUTSIDE_TYPES, Node
from ..errors import DumpError, UnboundedSizeError
from .shapes import evaluate, read_desc, symbols_in

_MOST_SYMBOLS = 512
# The value of every symbol when only the magnitude of an expression is checked.
_EXAMPLE_SIZE = 64


def check_inputs(order: Iterable[Node]) -> None:
    """Reject a dump with too many symbols, each of which costs milliseconds, or with sizes that are too large."""
    names: set[str] = set()
    for node in order:
        for desc in node.proto.output_desc if node.type in OUTSIDE_TYPES else ():
            names.update(_input_symbols(node, desc))
    if len(names) > _MOST_SYMBOLS:
        raise DumpError(f"its inputs have {len(names)} symbols for sizes; up to {_MOST_SYMBOLS} can be followed")


def _input_symbols(node: Node, desc: Any) -> Iterable[str]:
    declared = read_desc(desc)
    if not declared.meta:
        return [f"{node.name}_{at}" for at, size in enumerate(declared.dims or ()) if size < 0]
    names = [name for text in declared.meta for name in symbols_in(text)]
    for text in declared.meta:
        _check_growth(node, text, names)
    return names


def _check_growth(node: Node, text: str, names: list[str]) -> None:
    try:
        evaluate(text, dict.fromkeys(names, _EXAMPLE_SIZE))
    except UnboundedSizeError as error:
        raise DumpError(f"{node.name}: {error}") from None
    except DumpError:
        return  # inference reports it in a remark

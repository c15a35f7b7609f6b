"""The symbols of a dump that can be given sizes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import SizeError

if TYPE_CHECKING:
    from ..dump import Dump


def check_symbols(dump: Dump, names: Iterable[str]) -> None:
    """Refuses a name that is not a symbol of the dump."""
    found = dump.inference
    unknown = sorted(set(names) - set(found.symbols) - set(found.baked) - set(found.tied))
    if unknown:
        raise SizeError(f"the dump has no symbol {unknown[0]}; it has {', '.join(found.symbols) or 'none'}")

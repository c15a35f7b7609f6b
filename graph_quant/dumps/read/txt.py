"""Reads ``txt`` dumps: GE's GraphDef in protobuf text format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf import text_format

from ...ge import new_graph
from ..errors import DumpError
from .file_contents import Progress

_TOP_LEVEL_END = re.compile(r"^\}\n", re.MULTILINE)
_CHUNK = 1 << 18


def read_txt(text: str, progress: Progress) -> Any:
    """Parse a GraphDef; ``progress`` is called with the fraction done."""
    return parse_text(text, new_graph, progress)


def parse_text(text: str, make: Callable[[], Any], progress: Progress) -> Any:
    """Parse text into the message that ``make`` creates, block by block."""
    message = make()
    try:
        for start, end in chunks(text):
            text_format.Merge(text[start:end], message)
            progress(end / len(text))
    except (text_format.ParseError, ValueError, TypeError):
        # A hand-edited file may close a block in the first column: parse it as a whole.
        message = make()
        merge_text(text, message)
    return message


def merge_text(text: str, message: Any) -> None:
    """Merge text into a protobuf ``message``; raise `DumpError` on a syntax error."""
    try:
        text_format.Merge(text, message)
    except text_format.ParseError as error:
        raise DumpError(f"not a GE graph in text form, at line {error}") from None
    except (ValueError, TypeError) as error:  # values out of range
        raise DumpError(f"not a GE graph in text form: {error}") from None


def chunks(text: str) -> Iterator[tuple[int, int]]:
    """Yield spans that end with a top-level block, so that progress can be reported between them."""
    start = 0
    while start < len(text):
        match = _TOP_LEVEL_END.search(text, min(start + _CHUNK, len(text)))
        end = match.end() if match else len(text)
        yield start, end
        start = end

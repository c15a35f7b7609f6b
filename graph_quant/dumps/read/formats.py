"""Opens a dump file of any of TorchAir's three formats, told apart by what is in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ...ge.graph import Source
from ..errors import DumpError
from .txt import Progress

_PBTXT = re.compile(r"\s*node\s*[:{]")
_TXT = re.compile(r"\s*(?:name\s*:|op\s*[:{]|attr\s*[:{])")
_PY = re.compile(r"^(?:from torchair\b|.* = ge\.\w+\()", re.MULTILINE)


def read(path: Path, progress: Progress) -> tuple[str, Any, dict[str, Source]]:
    """The format of the dump at ``path``, its GraphDef, and the Python line of each node where it tells."""
    text = _text(path)
    try:
        if _PBTXT.match(text):
            from .pbtxt import read_pbtxt

            return "pbtxt", read_pbtxt(text, progress), {}
        if _TXT.match(text):
            from .txt import read_txt

            return "txt", read_txt(text, progress), {}
        if _PY.search(text[: 1 << 16]):
            from .py import read_py

            return "py", *read_py(text, progress)
    except (RecursionError, MemoryError):
        raise DumpError("the dump is nested too deeply to be read") from None
    raise DumpError("this is not a GE graph dump: txt, pbtxt and py as TorchAir writes them can be read")


def looks_like_dump(path: Path) -> bool:
    """Whether a file begins as a dump does."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(1 << 16)
    except (OSError, UnicodeDecodeError):
        return False
    return bool(_PBTXT.match(text) or _TXT.match(text) or _PY.search(text))


def is_tape(path: Path) -> bool:
    """Whether a file holds a captured graph rather than a dump of a GE graph."""
    if path.suffix != ".json":
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(1) == "["


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except IsADirectoryError:
        raise DumpError("this is a folder; name one dump in it") from None
    except OSError as error:
        raise DumpError(error.strerror or type(error).__name__) from None
    if not content.strip():
        raise DumpError("the file is empty")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DumpError(f"this is not text: byte {error.start} is not UTF-8") from None
    if "\0" in text:
        raise DumpError(f"this is not text: byte {text.index(chr(0))} is zero")
    return text

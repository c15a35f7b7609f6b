"""The Python line behind an FX node."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import torch

_FRAME = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in [^\n]*)?(?:\n(?!\s*File ")(?P<code>[^\n]*))?')
_VERIFICATION = str(Path(__file__).parents[1])
_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]))


class Line(NamedTuple):
    """A line of Python."""

    file: str
    number: int
    code: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.number}"


def line_of(stack_trace: str | None) -> Line | None:
    """The innermost line outside of torch and of this package, or else the innermost one."""
    frames = [Line(m["file"], int(m["line"]), (m["code"] or "").strip()) for m in _FRAME.finditer(stack_trace or "")]
    frames = [frame for frame in frames if not frame.file.startswith(_VERIFICATION)]  # it calls the code
    innermost = [frame for frame in frames if not frame.file.startswith(_LIBRARIES)] or frames
    return innermost[-1] if innermost else None

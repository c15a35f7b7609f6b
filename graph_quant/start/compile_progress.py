"""The stage of a compilation on a terminal, once it takes more than two seconds: tracing, nodes, time.

One line on stderr, rewritten twice a second by a thread and erased at the end. Nothing is written where stderr is no
terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

_QUIET_SECONDS = 2.0
_INTERVAL = 0.5
_ERASE = "\r\x1b[K"


class CompileProgress:
    """The stage of the outermost compilation in progress.

    Args:
        stream: Where the line is written; nothing is if it is no terminal.
        quiet_seconds: How long a compilation takes before the line appears.
    """

    def __init__(self, stream: TextIO | None = None, quiet_seconds: float = _QUIET_SECONDS) -> None:
        self._stream = stream
        self._quiet_seconds = quiet_seconds
        self._stage = ""
        self._done = self._total = 0
        self._since = 0.0
        self._ended: threading.Event | None = None

    def begin(self, *_: object) -> None:
        """Begin with tracing; does nothing while a compilation is in progress."""
        if self._ended is not None or not self._is_terminal():
            return
        self.enter("tracing")
        self._since = time.monotonic()
        self._ended = threading.Event()
        threading.Thread(target=self._show, args=(self._ended,), daemon=True).start()

    def end(self, *_: object) -> None:
        """End the compilation and erase the line."""
        if self._ended is not None:
            self._ended.set()
            self._ended = None

    def enter(self, stage: str, total: int = 0) -> None:
        """Enter a stage of ``total`` nodes; 0 if they are not counted."""
        self._stage, self._done, self._total = stage, 0, total

    def advance(self) -> None:
        """Count a node."""
        self._done += 1

    def line(self) -> str:
        """The line that is shown."""
        nodes = f" {min(self._done, self._total)} of {self._total} nodes" if self._total else ""
        return f"compiling: {self._stage}{nodes}, {time.monotonic() - self._since:.0f} s"

    def _is_terminal(self) -> bool:
        stream = self._stream or sys.stderr
        return stream is not None and stream.isatty()

    def _show(self, ended: threading.Event) -> None:
        stream = self._stream or sys.stderr
        if ended.wait(self._quiet_seconds):
            return
        while not ended.is_set():
            self._write(stream, f"{_ERASE}{self.line()}")
            ended.wait(_INTERVAL)
        self._write(stream, _ERASE)

    @staticmethod
    def _write(stream: TextIO, text: str) -> None:
        try:
            stream.write(text)
            stream.flush()
        except (OSError, ValueError):  # closed by the script
            return


progress = CompileProgress()


def report(register_start: Callable[..., object], register_end: Callable[..., object]) -> None:
    """Show the progress of every compilation by Dynamo, through its two callbacks."""
    register_start(progress.begin)
    register_end(progress.end)

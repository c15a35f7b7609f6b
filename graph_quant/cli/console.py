"""Shared by the commands: one-line errors, progress, output to a file or the terminal."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from ..discovery import ENTRY_POINTS
from ..dumps import DumpError, MissingInputError, SizeError, TooLargeError
from ..ge import GeError, printable
from .without_dynamo import leave_dynamo_unloaded

if TYPE_CHECKING:
    from ..dumps import Dump

UNREADABLE = 2
SIZE_OPTION = "--size"
_QUIET_SECONDS = 2.0


def report_errors(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Wrap a command: a `GeError` becomes one line on stderr and exit code 2."""

    def run(args: argparse.Namespace) -> int:
        try:
            return command(args)
        except GeError as error:
            return print_error(_name_options(error))

    return run


def _name_options(error: GeError) -> str:
    """The message with the option that fixes it."""
    if isinstance(error, SizeError):
        return f"{SIZE_OPTION}: {error}"
    if isinstance(error, TooLargeError):
        return f"{error} (--memory, {SIZE_OPTION})"
    return f"{error}; give --inputs" if isinstance(error, MissingInputError) else str(error)


def print_error(message: str) -> int:
    """Print an error in one line and return the exit code."""
    print(f"graph-quant: {printable(message)}", file=sys.stderr)
    return UNREADABLE


def open_dump(path: str, source: str | None = None, *, infer: bool = True, compiles: bool = False) -> Dump:
    """Load a dump and infer its types, with a progress bar on stderr after two seconds."""
    _load_less(compiles)
    from ..dumps import load

    with progress(f"reading {Path(path).name}") as report:
        dump = load(path, source, report)
    if infer:
        with progress("inferring dtypes and shapes") as report:
            dump.infer(report)
    return dump


def _load_less(compiles: bool) -> None:
    """Keep torch from loading torch_npu and Dynamo, which reading a dump does not need.

    Not if other packages register operators, which are loaded with torch_npu.
    """
    if "torch" not in sys.modules and not entry_points(group=ENTRY_POINTS):
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        if not compiles:
            leave_dynamo_unloaded()


@contextmanager
def progress(title: str) -> Iterator[Callable[[float], None]]:
    """Show a progress bar; yields a function that takes the fraction done."""
    bar = _ProgressBar(title)
    try:
        yield bar.report
    finally:
        bar.stop()


@contextmanager
def spinner(title: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner on stderr after two seconds, for work of unknown duration; yields a function for another title."""
    if not sys.stderr.isatty():
        yield lambda _title: None
        return
    from rich.console import Console

    status = Console(stderr=True).status(title)
    timer = threading.Timer(_QUIET_SECONDS, status.start)
    timer.start()
    try:
        yield status.update
    finally:
        timer.cancel()
        status.stop()


class _ProgressBar:
    def __init__(self, title: str) -> None:
        self._title = title
        self._since = time.monotonic()
        self._stop: Callable[[], None] = lambda: None
        self._update: Callable[[float], None] | None = None

    def report(self, share: float) -> None:
        if self._update is None and sys.stderr.isatty() and time.monotonic() - self._since > _QUIET_SECONDS:
            self._start()
        if self._update is not None and share:
            self._update(share)

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        shown = Progress(console=Console(stderr=True), transient=True)
        task = shown.add_task(printable(self._title, 60).replace("[", "("), total=1.0)
        shown.start()
        self._stop = shown.stop
        self._update = lambda share: shown.update(task, completed=share)

    def stop(self) -> None:
        self._stop()


def write_output(content: str | bytes, output: str | None) -> None:
    """Write to the file, or print."""
    if output is None:
        if isinstance(content, bytes):
            raise DumpError("this format is binary; name a file with -o")
        sys.stdout.write(content)
        return
    try:
        if isinstance(content, bytes):
            Path(output).write_bytes(content)
        else:
            Path(output).write_text(content, encoding="utf-8")
    except OSError as error:
        raise DumpError(f"{output}: {error.strerror or type(error).__name__}") from None


def parse_sizes(texts: list[str]) -> dict[str, int]:
    """Parse sizes such as ``s77=128,s27=64``."""
    sizes: dict[str, int] = {}
    for part in (piece for text in texts for piece in text.replace(",", " ").split()):
        name, equals, number = part.partition("=")
        if not equals or not name or not (number.isascii() and number.isdigit()) or len(number) > 12:
            raise DumpError(f"{SIZE_OPTION} takes SYMBOL=NUMBER, got {part}")
        sizes[name] = int(number)
    return sizes

"""Progress bars on a terminal; nothing is shown where stderr is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

ReportProgress = Callable[[float], None]
Progress = Callable[[str], AbstractContextManager[ReportProgress]]


@contextmanager
def silent(_title: str) -> Iterator[ReportProgress]:
    """Show no progress."""
    yield lambda _fraction: None


@contextmanager
def on_terminal(title: str) -> Iterator[ReportProgress]:
    """A progress bar that disappears at the end. It pulses until the fraction of completed work is known."""
    if not sys.stderr.isatty():
        yield lambda _fraction: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(escape(title), total=None)
        yield lambda fraction: shown.update(task, total=1.0, completed=fraction)

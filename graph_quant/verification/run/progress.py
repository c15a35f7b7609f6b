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
    """Show a progress bar on a terminal, which disappears at the end.

    Args:
        title: The text before the bar.

    Yields:
        A function that takes the fraction of completed work; the bar pulses until it is first called.
    """
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

"""A bar on the terminal while something takes long; nothing where there is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

Told = Callable[[float], None]
Progress = Callable[[str], AbstractContextManager[Told]]


@contextmanager
def silent(_title: str) -> Iterator[Told]:
    """Tell nobody."""
    yield lambda _share: None


@contextmanager
def on_terminal(title: str) -> Iterator[Told]:
    """A bar that vanishes when the work is done. It pulses until a share is known."""
    if not sys.stderr.isatty():
        yield lambda _share: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(escape(title), total=None)
        yield lambda share: shown.update(task, total=1.0, completed=share)

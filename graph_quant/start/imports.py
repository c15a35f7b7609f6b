"""Runs actions when certain modules are imported, in whatever order a process imports them."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the import: this runs at interpreter start
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    Action = Callable[[], None]


class ImportActions:
    """A finder that lets the real import happen, with actions before and after a module's code runs."""

    def __init__(self) -> None:
        self._before: dict[str, Action] = {}
        self._after: dict[str, Action] = {}
        self._around: dict[str, Callable[[], AbstractContextManager[None]]] = {}
        self._searching: set[str] = set()
        # The first error of an action by its module: what follows from it may hide it.
        self.failed: dict[str, Exception] = {}

    def install(self) -> None:
        """Insert this finder before the others."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def before(self, module: str, action: Action) -> None:
        """Run `action` just before the code of `module`."""
        self._before[module] = action

    def around(self, module: str, context: Callable[[], AbstractContextManager[None]]) -> None:
        """Run the code of `module`, which has an action before or after it, in a context."""
        self._around[module] = context

    def after(self, module: str, action: Action) -> None:
        """Run `action` just after the code of `module`, or at once if `module` is imported already."""
        if module in sys.modules:
            self._run(module, action)
        else:
            self._after[module] = action

    def _run(self, module: str, action: Action) -> None:
        try:
            action()
        except Exception as error:
            self.failed.setdefault(module, error)
            raise

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a watched module as the other finders would, and wrap its execution."""
        if (name not in self._before and name not in self._after) or name in self._searching:
            return None
        self._searching.add(name)
        try:
            spec = _find_with_others(self, name, path, target)
        finally:
            self._searching.discard(name)
        if spec is not None and spec.loader is not None:
            self._wrap(name, spec.loader)
        return spec

    def _wrap(self, name: str, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            if action := self._before.pop(name, None):
                self._run(name, action)
            if context := self._around.pop(name, None):
                with context():
                    execute(module)
            else:
                execute(module)
            if action := self._after.pop(name, None):
                self._run(name, action)

        loader.exec_module = exec_module


def _find_with_others(
    this: ImportActions, name: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    for finder in sys.meta_path:
        if finder is not this and (find := getattr(finder, "find_spec", None)):
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                return spec
    return None

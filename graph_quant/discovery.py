"""Tables by name that load what is asked of them: a model has thirty GE types and ten operators, the package hundreds.

Which module declares a name is read from the text of its declarations; a module that makes them in any other way is
imported first, whatever is asked for. So adding an operator or a kernel means adding a file and nothing else.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

# The entry points with which other packages register operators of their own.
ENTRY_POINTS = "graph_quant.operators"

Entry = TypeVar("Entry")
_NAME = re.compile(r'"([\w.:]+)"')


def load_attribute(name: str, homes: Mapping[str, Sequence[str]], package: str) -> Any:
    """What a package offers under ``name``, from the module inside that is its home."""
    for module, names in homes.items():
        if name in names:
            return getattr(importlib.import_module(f".{module}", package), name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


class Shelves:
    """Which modules there are, and which of them declare a name.

    ``declared`` finds a declaration that states its names as text, in its group ``names``; ``called`` are the words
    that every declaration has, and ``imported`` finds that a module has the means to make one. ``full`` completes a
    name that may be stated short.
    """

    def __init__(self, declared: str, called: Sequence[str], imported: str, full: Callable[[str], str] = str) -> None:
        self._declared, self._imported = re.compile(declared, re.MULTILINE), re.compile(imported)
        self._called = tuple(called)
        self._full = full
        self._packages: list[str] = []
        self._unread: list[str] = []
        self._by_name: dict[str, list[str]] = {}
        self._first: list[str] = []
        # A thread waits for what another is importing; a module that is being imported may ask in turn.
        self._turn = RLock()

    def look_in(self, *packages: str) -> None:
        """Find what the modules below ``packages`` declare."""
        new = [name for name in packages if name not in self._packages]
        self._packages += new
        self._unread += new

    def load(self, name: str) -> None:
        """Import what declares ``name``."""
        with self._turn:
            self._load_first()
            for module in self._by_name.get(name, ()):
                importlib.import_module(module)
            self._by_name.pop(name, None)

    def load_all(self) -> None:
        """Import everything."""
        with self._turn:
            self._load_first()
            for module in (module for modules in self._by_name.values() for module in modules):
                importlib.import_module(module)
            self._by_name = {}

    def names(self) -> set[str]:
        """The names whose modules are not imported yet."""
        with self._turn:
            self._load_first()
            return set(self._by_name)

    def _load_first(self) -> None:
        self._read()
        while self._first:
            importlib.import_module(self._first[0])
            del self._first[:1]

    def _read(self) -> None:
        while self._unread:
            package = self._unread.pop()
            for module, text in _modules(package, importlib.import_module(package).__path__):
                self._sort(module, text)

    def _sort(self, module: str, text: str | None) -> None:
        if text is None:
            self._first.append(module)
            return
        found = list(self._declared.finditer(text))
        if len(found) < sum(map(text.count, self._called)) or (not found and self._imported.search(text)):
            self._first.append(module)
            return
        for names in found:
            for name in _NAME.findall(names["names"]):
                self._by_name.setdefault(self._full(name), []).append(module)


def _modules(package: str, path: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """The modules below a package and their text, None where only compiled code is installed; nothing is imported."""
    for folder in map(Path, path):
        for each in pkgutil.iter_modules([str(folder)]):
            name = f"{package}.{each.name}"
            if each.ispkg:
                yield from _modules(name, [str(folder / each.name)])
            yield name, _text(folder / each.name / "__init__.py" if each.ispkg else folder / f"{each.name}.py")


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


class Table(dict[str, Entry]):
    """One table: by name, loaded when a name is asked for, whole where it is gone through."""

    # What a name stands for where that is loaded already, else None.
    at_hand = dict.get

    def __init__(self, shelves: Shelves) -> None:
        super().__init__()
        self._shelves = shelves

    def look_in(self, *packages: str) -> None:
        """Find what the modules below ``packages`` declare."""
        self._shelves.look_in(*packages)

    def add(self, name: str, entry: Entry) -> None:
        """Declare a name, which nothing else may."""
        if dict.__contains__(self, name):
            raise ValueError(f"two declarations of {name}")
        self[name] = entry

    def names(self) -> set[str]:
        """The names that are known, without loading what they stand for."""
        return self._shelves.names() | set(dict.__iter__(self))

    def __missing__(self, name: str) -> Entry:
        self._shelves.load(name)
        if not dict.__contains__(self, name):
            raise KeyError(name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        if not dict.__contains__(self, name) and isinstance(name, str):
            self._shelves.load(name)
        return dict.__contains__(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """What a name stands for, or ``default``."""
        try:
            return self[name]
        except KeyError:
            return default

    def __iter__(self) -> Iterator[str]:
        self._shelves.load_all()
        return super().__iter__()

    def __len__(self) -> int:
        self._shelves.load_all()
        return super().__len__()

    def keys(self) -> Any:
        """All names."""
        self._shelves.load_all()
        return super().keys()

    def values(self) -> Any:
        """What all names stand for."""
        self._shelves.load_all()
        return super().values()

    def items(self) -> Any:
        """All names and what they stand for."""
        self._shelves.load_all()
        return super().items()

"""Tables by GE op type that load what a graph needs of them: a model has thirty types, the package hundreds.

``look_in`` names the packages whose modules fill the tables. Which module declares a type is read from the text of its
decorators; a module that makes declarations in any other way is imported first, whatever is asked for.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, MutableMapping, Sequence
from threading import RLock
from typing import TypeVar

Entry = TypeVar("Entry")

_DECLARED = re.compile(r'^@(?:\w+_)?kernel\(\s*(?P<types>"[^)=]*?)\s*(?:,\s*\w+=|,?\s*\))', re.MULTILINE)
_CALLS = re.compile(r"\b(?:\w+_)?kernel\(|\bdeclare\(")
_IMPORTED = re.compile(r"\bimport\b.*\bkernels?\b|\bkernels\b.*\bimport\b")
_TYPE = re.compile(r'"(\w+)"')


class _Shelves:
    """Which modules there are, and which of them declare a type."""

    def __init__(self) -> None:
        self._packages: list[str] = []
        self._unread: list[str] = []
        self._by_type: dict[str, list[str]] = {}
        self._first: list[str] = []
        # A thread waits for what another is importing; a module that is being imported may ask in turn.
        self._turn = RLock()

    def look_in(self, packages: Sequence[str]) -> None:
        new = [name for name in packages if name not in self._packages]
        self._packages += new
        self._unread += new

    def load(self, op_type: str) -> None:
        """Import what declares ``op_type``."""
        with self._turn:
            self._read()
            for name in (*self._first, *self._by_type.get(op_type, ())):
                importlib.import_module(name)
            self._first = []
            self._by_type.pop(op_type, None)

    def load_all(self) -> None:
        """Import everything."""
        with self._turn:
            self._read()
            for name in (*self._first, *(name for names in self._by_type.values() for name in names)):
                importlib.import_module(name)
            self._first, self._by_type = [], {}

    def _read(self) -> None:
        while self._unread:
            package = self._unread.pop()
            for name, text in _modules(package, importlib.import_module(package).__path__):
                self._sort(name, text)

    def _sort(self, name: str, text: str | None) -> None:
        found = [] if text is None else list(_DECLARED.finditer(text))
        if text is None or len(found) < max(len(_CALLS.findall(text)), bool(_IMPORTED.search(text))):
            self._first.append(name)
            return
        for types in found:
            for op_type in _TYPE.findall(types["types"]):
                self._by_type.setdefault(op_type, []).append(name)


def _modules(package: str, path: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """The modules below a package and their text, None where only compiled code is installed; nothing is imported."""
    for each in pkgutil.iter_modules(path):
        name = f"{package}.{each.name}"
        spec = each.module_finder.find_spec(name)  # type: ignore[call-arg]
        if spec is None or spec.loader is None:
            continue
        if each.ispkg:
            yield from _modules(name, list(spec.submodule_search_locations or ()))
        yield name, getattr(spec.loader, "get_source", lambda _: None)(name)


_shelves = _Shelves()


def look_in(*packages: str) -> None:
    """Fill the tables, when they are asked, with what the modules below ``packages`` declare."""
    _shelves.look_in(packages)


class Table(MutableMapping[str, Entry]):
    """One table: by op type, loaded when a type is asked for, whole where it is gone through."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def add(self, op_type: str, entry: Entry) -> None:
        """Declare a type, which nothing else may."""
        if op_type in self._entries:
            raise ValueError(f"two kernels for {op_type}")
        self._entries[op_type] = entry

    def __getitem__(self, op_type: str) -> Entry:
        if op_type not in self._entries:
            _shelves.load(op_type)
        return self._entries[op_type]

    def __setitem__(self, op_type: str, entry: Entry) -> None:
        self._entries[op_type] = entry

    def __delitem__(self, op_type: str) -> None:
        del self._entries[op_type]

    def __iter__(self) -> Iterator[str]:
        _shelves.load_all()
        return iter(self._entries)

    def __len__(self) -> int:
        _shelves.load_all()
        return len(self._entries)

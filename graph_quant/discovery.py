"""Tables by name that import the declaring module on first access: a model needs a few of the hundreds of operators.

The modules of this package are listed in ``operator_index``, which ``make index`` generates. Other packages declare
their operators by being imported, through the entry points below.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from threading import RLock
from typing import Any, NamedTuple, TypeVar

# The entry points with which other packages register operators of their own.
ENTRY_POINTS = "graph_quant.operators"

Entry = TypeVar("Entry")
# The modules that have declared a name so far, by section of the index: what the index is generated from.
declarations: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))


class PluginProblem(NamedTuple):
    """An entry point of another package that does not work, and why."""

    entry_point: str
    reason: str


# What is wrong with the entry points that were loaded so far.
plugin_problems: list[PluginProblem] = []


def load_plugins(group: str) -> Iterator[EntryPoint]:
    """Import the modules of an entry point group; yield each entry point after its import.

    One that fails is reported and skipped: a faulty package must not stop those that do not use it.
    """
    for entry in entry_points(group=group):
        try:
            entry.load()
        except Exception as error:
            report_plugin(entry, f"{type(error).__name__}: {error}")
        yield entry


def report_plugin(entry: EntryPoint, reason: str) -> None:
    """Warn of an entry point that does not work."""
    package = f" of {entry.dist.name} {entry.dist.version}" if entry.dist else ""
    name = f"{entry.group}: {entry.name} = {entry.value}{package}"
    first_line = reason.strip().partition("\n")[0]
    plugin_problems.append(PluginProblem(name, first_line))
    message = f"graph_quant: the entry point {name} does not work: {first_line}"
    warnings.warn_explicit(message, UserWarning, entry.value, 1)  # of the package, not of this line


def load_attribute(name: str, modules: Mapping[str, Sequence[str]], package: str) -> Any:
    """Return the attribute ``name`` that a package exports, from the submodule that ``modules`` lists it under."""
    for module, names in modules.items():
        if name in names:
            return getattr(importlib.import_module(f".{module}", package), name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def record_declaration(section: str, name: str) -> None:
    """Record that the module that is being imported declares ``name``."""
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back
    declarations[section][name].add(frame.f_globals["__name__"])


def read_index(section: str) -> dict[str, Any]:
    """Return a section of the index: names and the modules that declare them."""
    return dict(getattr(importlib.import_module("graph_quant.operator_index"), section))


def indexed_modules(section: str) -> set[str]:
    """Return the modules of a section of the index."""
    return set(read_index(section).values())


def import_modules(modules: Iterable[str]) -> None:
    """Import modules that the index lists."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise ImportError(f"graph_quant/operator_index.py lists {module}: regenerate it by `make index`") from error


class Index:
    """A section of the index: which module declares a name, less those that are imported."""

    def __init__(self, section: str) -> None:
        self.section = section
        self._modules: dict[str, str] | None = None
        # A thread waits for what another is importing; a module that is being imported may ask in turn.
        self._lock = RLock()

    def load(self, name: str) -> None:
        """Import the module that declares ``name``."""
        with self._lock:
            modules = self._unloaded()
            if name in modules:
                import_modules([modules[name]])
                del modules[name]

    def load_all(self) -> None:
        """Import all modules."""
        with self._lock:
            modules = self._unloaded()
            import_modules(dict.fromkeys(modules.values()))
            modules.clear()

    def names(self) -> set[str]:
        """Return the names whose modules are not imported yet."""
        with self._lock:
            return set(self._unloaded())

    def _unloaded(self) -> dict[str, str]:
        if self._modules is None:
            self._modules = read_index(self.section)
        return self._modules


class Table(dict[str, Entry]):
    """A dict by operator or node name. Access to a name imports its module; iteration imports all of them."""

    # The entry of a name if its module is imported already, else None.
    get_loaded = dict.get

    def __init__(self, index: Index) -> None:
        super().__init__()
        self._index = index

    def add(self, name: str, entry: Entry) -> None:
        """Declare a name that nothing else declares."""
        if dict.__contains__(self, name):
            raise ValueError(f"two declarations of {name}")
        self[name] = entry

    def names(self) -> set[str]:
        """Return all names, without importing their modules."""
        return self._index.names() | set(dict.__iter__(self))

    def __setitem__(self, name: str, entry: Entry) -> None:
        record_declaration(self._index.section, name)
        super().__setitem__(name, entry)

    def __missing__(self, name: str) -> Entry:
        self._index.load(name)
        if not dict.__contains__(self, name):
            raise KeyError(name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        if not dict.__contains__(self, name) and isinstance(name, str):
            self._index.load(name)
        return dict.__contains__(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the entry of a name, or ``default``."""
        try:
            return self[name]
        except KeyError:
            return default

    def __iter__(self) -> Iterator[str]:
        self._index.load_all()
        return super().__iter__()

    def __len__(self) -> int:
        self._index.load_all()
        return super().__len__()

    def keys(self) -> Any:
        """Return all names."""
        self._index.load_all()
        return super().keys()

    def values(self) -> Any:
        """Return all entries."""
        self._index.load_all()
        return super().values()

    def items(self) -> Any:
        """Return all names and entries."""
        self._index.load_all()
        return super().items()

"""Registers the records as meta functions and CPU kernels, instead of torch_npu's meta functions.

Only the names of the operators are registered; a record is loaded when its operator is first called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib.metadata import EntryPoint
from typing import Any

import torch
from graph_quant import discovery
from graph_quant.dispatcher import infer_with, is_defined
from graph_quant.meta.execution import execute
from graph_quant.meta.operator import RECORDS, inferring, title
from torch_npu.op_plugin.meta import _meta_registrations

_libraries: list[torch.library.Library] = []


def register() -> None:
    """Register all records with the dispatcher. Calling it again does nothing."""
    if _libraries:
        return
    plugins = load()
    register_names(installed_records(), plugins)


def register_names(operators: Collection[str], plugins: Mapping[str, EntryPoint] | None = None) -> None:
    """Register the records of these operators with the dispatcher.

    Args:
        operators: Their names.
        plugins: The entry points that declare some of them; one that fails is reported and skipped.
    """
    names = sorted(operators)
    libraries = {space: torch.library.Library(space, "IMPL") for space in {name.partition("::")[0] for name in names}}
    for name in names:
        try:
            _register_record(libraries[name.partition("::")[0]], name)
        except Exception as error:
            if plugins is None or name not in plugins:
                raise
            discovery.report_plugin(plugins[name], f"{name} cannot be registered: {error}")
    _libraries.extend(libraries.values())


def _register_record(library: torch.library.Library, name: str) -> None:
    record = RECORDS.get_loaded(name)
    if record is None or record.rules is not None:
        infer_with(library, name, inferring(name, upstream(title(name))))
    if record is None or record.reference is not None:
        library.impl(name, execute(name), "CPU")


def load() -> dict[str, EntryPoint]:
    """Define the operators of ATB, and import the records of other packages.

    Returns:
        The entry points that declare the operators of other packages, by operator.
    """
    from graph_quant.meta import atb  # noqa: F401  (defines the operators)

    plugins: dict[str, EntryPoint] = {}
    known = RECORDS.names()
    for entry in discovery.load_plugins(discovery.ENTRY_POINTS):
        for name in sorted(RECORDS.names() - known):
            plugins[name] = entry
            if not is_defined(name):
                discovery.report_plugin(entry, f"{name} has a record but is not defined by torch.library.define")
        known = RECORDS.names()
    return plugins


def installed_records() -> set[str]:
    """The operators with a record that an imported package defines; torch_npu's own differ by release."""
    names = RECORDS.names()
    # ATB's operators are defined when torch_npu loads their library.
    return {name for name in names if name.startswith("atb::")} | (names & set(torch._C._dispatch_get_all_op_names()))


def upstream(name: str) -> Callable[..., Any] | None:
    """torch_npu's own meta function, which has the operator's name with or without a suffix."""
    functions = (getattr(_meta_registrations, f"{name}{suffix}", None) for suffix in ("_meta", "_forward", ""))
    return next((function for function in functions if function is not None), None)


def unregister() -> None:
    """Remove the records from the dispatcher, so that torch_npu's meta functions are used again."""
    while _libraries:
        _libraries.pop()._destroy()

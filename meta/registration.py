"""Registers the records as meta functions and CPU kernels, instead of torch_npu's meta functions.

Only the names of the operators are registered; a record is loaded when its operator is first called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib.metadata import entry_points
from typing import Any

import torch
from graph_quant import discovery
from graph_quant.dispatcher import infer_with
from graph_quant.meta.execution import execute
from graph_quant.meta.operator import RECORDS, inferring, title
from torch_npu.op_plugin.meta import _meta_registrations

_libraries: list[torch.library.Library] = []


def register() -> None:
    """Register all records with the dispatcher. Calling it again does nothing."""
    if _libraries:
        return
    load()
    register_names(installed_records())


def register_names(operators: Collection[str]) -> None:
    """Register the records of these operators with the dispatcher."""
    names = sorted(operators)
    libraries = {space: torch.library.Library(space, "IMPL") for space in {name.partition("::")[0] for name in names}}
    for name in names:
        library, record = libraries[name.partition("::")[0]], RECORDS.get_loaded(name)
        if record is None or record.rules is not None:
            infer_with(library, name, inferring(name, upstream(title(name))))
        if record is None or record.reference is not None:
            library.impl(name, execute(name), "CPU")
    _libraries.extend(libraries.values())


def load() -> None:
    """Define the operators of ATB, and import the records that other packages register as entry points."""
    from graph_quant.meta import atb  # noqa: F401  (defines the operators)

    for entry in entry_points(group=discovery.ENTRY_POINTS):
        entry.load()


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

"""Puts the records in the place of torch_npu's own inference, and gives that back."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

import torch
from graph_quant import chip, discovery
from graph_quant.meta.execution import execute
from graph_quant.meta.operator import RECORDS
from torch_npu.op_plugin.meta import _meta_registrations

_libraries: list[torch.library.Library] = []


def register() -> None:
    """Puts the records in place. Calling it again changes nothing."""
    if _libraries:
        return
    load()
    libraries = {record.namespace: torch.library.Library(record.namespace, "IMPL") for record in RECORDS.values()}
    for name, record in RECORDS.items():
        library = libraries[record.namespace]
        if record.rules is not None:
            infer = chip.or_upstream(record.infer, upstream(record.title))
            torch.library.register_fake(name, infer, lib=library, allow_override=True)
        if record.reference is not None:
            library.impl(name, execute(record), "CPU")
    _libraries.extend(libraries.values())


def load() -> None:
    """Fills ``RECORDS``: with this package's own, and with those that other packages register."""
    discovery.load_all(__package__)
    for entry in entry_points(group=discovery.ENTRY_POINTS):
        entry.load()


def upstream(name: str) -> Callable[..., Any] | None:
    """torch_npu's own inference, which it calls by the operator's name with or without a suffix."""
    names = (f"{name}{suffix}" for suffix in ("_meta", "_forward", ""))
    return next((found for each in names if (found := getattr(_meta_registrations, each, None)) is not None), None)


def unregister() -> None:
    """Gives the operators back to torch_npu's own inference."""
    while _libraries:
        _libraries.pop()._destroy()

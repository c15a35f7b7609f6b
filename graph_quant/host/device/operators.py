"""Eager calls of the operators of ``graph_quant.meta`` on tensors of the host NPU."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from graph_quant.formats import keep_format, storage_format
from graph_quant.host import alias, recording
from graph_quant.host.device import formats
from graph_quant.host.device.gradients import cast_gradient, raise_in_backward
from graph_quant.host.devices import with_device_guard
from graph_quant.meta.execution import results_of
from graph_quant.meta.operator import RECORDS, Operator
from graph_quant.meta.registration import installed_records
from graph_quant.releases.alternatives import implement
from torch import Tensor

_libraries: list[torch.library.Library] = []


def register_records() -> None:
    """Register every record that has a reference. Calling it again changes nothing."""
    if _libraries:
        return
    names = installed_records()
    if not names:
        return  # the index is being generated
    library = _register_kernels(names)["npu"]
    formats.register(library)
    for name in ("npu_dtype_cast_backward", "_npu_dtype_cast_backward"):
        for key in ("AutogradPrivateUse1", "AutogradCPU"):
            library.impl(name, cast_gradient(f"npu::{name}"), key)
    _refuse_missing_gradients(library, {name for name in names if name.startswith("npu::")})


def register_names(names: Collection[str]) -> None:
    """Register the references of operators that a package defines later, as kernels of npu tensors."""
    libraries = _register_kernels(set(names))
    if "npu" in libraries:
        _refuse_missing_gradients(libraries["npu"], {name for name in names if name.startswith("npu::")})


def _register_kernels(names: set[str]) -> dict[str, torch.library.Library]:
    """Register kernels; return the libraries, by namespace, that keep them registered."""
    namespaces = {name.partition("::")[0] for name in names}
    libraries = {namespace: torch.library.Library(namespace, "IMPL") for namespace in namespaces}
    for name in names:
        record = RECORDS.get_loaded(name)
        if record is None or record.reference is not None:
            library = libraries[name.partition("::")[0]]
            implement(library, name, with_device_guard(name, kernel_for(name)), "PrivateUse1")
    _libraries.extend(libraries.values())
    return libraries


def _refuse_missing_gradients(library: torch.library.Library, names: set[str]) -> None:
    differentiable = set(torch._C._dispatch_get_registrations_for_dispatch_key("AutogradPrivateUse1"))
    for name in names - differentiable:
        for key in ("AutogradPrivateUse1", "AutogradCPU"):
            library.impl(name, raise_in_backward(name), key)


def kernel_for(name: str) -> Callable[..., Any]:
    """Return the kernel of one operator: its reference, called on CPU aliases of the npu tensors."""
    captured = recording.recording
    record: Operator | None = None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        nonlocal record
        if record is None:
            record = RECORDS[name]
        if formats.takes_blocks(record.title):
            args = tuple(formats.without_blocks(record.title, value) for value in args)
            kwargs = {key: formats.without_blocks(record.title, value) for key, value in kwargs.items()}
        return recording.record(record.overload, run, args, kwargs) if captured[0] else run(*args, **kwargs)

    def run(*args: Any, **kwargs: Any) -> Any:
        assert record is not None
        values = record.bind(args, kwargs)
        originals: dict[int, Tensor] = {}
        cpu_values = [_to_cpu(value, originals) for value in values]
        if len({tensor.device for tensor in originals.values()}) > 1:
            record.one_device(values)
        results = results_of(record, cpu_values)
        returned = [_to_npu(result, originals) for result in results]
        return formats.keep_blocks(record.title, values[0], record.as_returned(returned))

    return kernel


def _to_npu(result: Any, originals: dict[int, Tensor]) -> Any:
    """Return ``result`` as an npu tensor: the argument that it aliases, or a new one. Numbers stay as they are."""
    original = originals.get(id(result))
    if original is not None or not isinstance(result, Tensor):
        return result if original is None else original
    return alias.to_npu(result)


def _to_cpu(value: Any, originals: dict[int, Tensor]) -> Any:
    """Return the CPU alias of ``value``; ``originals`` maps aliases to their npu tensors."""
    if isinstance(value, Tensor):
        cpu = value if value.is_cpu else _alias_of(value)
        if originals.get(id(cpu), value) is not value:  # two arguments with the same memory are returned as themselves
            cpu = alias.as_cpu(value)
            keep_format(cpu, storage_format(value))
        originals[id(cpu)] = value
        return cpu
    return [_to_cpu(item, originals) for item in value] if isinstance(value, (list, tuple)) else value


def _alias_of(value: Tensor) -> Tensor:
    """Return the cached CPU alias of an npu tensor in its format."""
    stored = storage_format(value)
    cpu = alias.kept_alias(value, (value.size(), value.stride(), value.dtype, stored))
    keep_format(cpu, stored)
    return cpu

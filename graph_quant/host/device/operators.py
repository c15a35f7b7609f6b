"""Eager calls of the operators of ``graph_quant.meta`` on tensors of the host NPU, whose memory the CPU shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from graph_quant.host import alias, recording
from graph_quant.host.device import formats
from graph_quant.meta.execution import results_of
from graph_quant.meta.operator import RECORDS, Operator
from torch import Tensor

_libraries: list[torch.library.Library] = []


def register() -> None:
    """Serves every record that has a reference. Calling it again changes nothing."""
    if _libraries:
        return
    libraries = {record.namespace: torch.library.Library(record.namespace, "IMPL") for record in RECORDS.values()}
    formats.register(libraries["npu"])
    for name, record in RECORDS.items():
        if record.reference is not None:
            libraries[record.namespace].impl(name, over_npu_memory(record), "PrivateUse1", allow_override=True)
    _libraries.extend(libraries.values())


def over_npu_memory(record: Operator) -> Callable[..., Any]:
    """The function that serves calls of one operator: its reference reads and writes the memory of the npu tensors."""
    captured = recording.recording

    def serve(*args: Any, **kwargs: Any) -> Any:
        return recording.record(record.overload, run, args, kwargs) if captured[0] else run(*args, **kwargs)

    def run(*args: Any, **kwargs: Any) -> Any:
        values = record.bind(args, kwargs)
        record.one_device(values)
        originals: dict[int, Tensor] = {}
        results = results_of(record, [_shared(value, originals) for value in values])
        return record.as_returned([_returned(result, originals) for result in results])

    return serve


def _returned(result: Any, originals: dict[int, Tensor]) -> Any:
    """``result`` on the npu: the tensor whose memory it is, or a new one; a number as it is."""
    own = originals.get(id(result))
    if own is not None or not isinstance(result, Tensor):
        return result if own is None else own
    return alias.to_npu(result)


def _shared(value: Any, originals: dict[int, Tensor]) -> Any:
    """``value`` seen from the CPU; ``originals`` learns whose memory each tensor shares."""
    if isinstance(value, (list, tuple)):
        return [_shared(item, originals) for item in value]
    if not isinstance(value, Tensor):
        return value
    cpu = alias.as_cpu(value)
    originals[id(cpu)] = value
    return cpu

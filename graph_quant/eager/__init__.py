"""Eager calls of the operators: the rules of ``meta``, the values of an index, then the reference.

CPU tensors are served everywhere. Tensors on ``npu`` are served where the NPU is the host; with CANN they are
torch_npu's own business. A module that names its ``OPERATOR`` is found by that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from graph_quant import discovery
from graph_quant.meta.rules import Rules
from graph_quant.start.preload import HOST, chosen
from torch import Tensor
from torch._prims_common import make_contiguous_strides_for

Kernel = Callable[..., Any]

KERNELS: dict[str, Kernel] = {module.OPERATOR: module.compute for module in discovery.operators(__name__)}

_libraries: list[torch.library.Library] = []


def register() -> None:
    """Serves eager calls. Calling it again changes nothing."""
    if _libraries:
        return
    library = torch.library.Library("npu", "IMPL")
    for name, kernel in KERNELS.items():
        library.impl(name, _on_cpu(kernel), "CPU")
    if chosen() is HOST:
        from graph_quant import format_cast

        format_cast.register(library)
        for name, kernel in KERNELS.items():
            library.impl(name, _over_npu_memory(name, kernel), "PrivateUse1", allow_override=True)
    _libraries.append(library)


def _on_cpu(kernel: Kernel) -> Kernel:
    """``kernel`` with the strides that inference promises, also where a size of 0 or 1 would allow others."""

    def on_cpu(*args: Any, **kwargs: Any) -> Any:
        results = kernel(*args, **kwargs)
        return _settled(results) if isinstance(results, Tensor) else tuple(map(_settled, results))

    return on_cpu


def _settled(result: Tensor) -> Tensor:
    strides = make_contiguous_strides_for(result.shape)
    return result if result.stride() == strides else result.contiguous().as_strided(result.shape, strides)


def _over_npu_memory(operator: str, kernel: Kernel) -> Kernel:
    """``kernel`` for tensors of the host NPU, whose memory a CPU tensor can share."""
    from graph_quant.host.alias import as_cpu, to_npu

    on_cpu = _on_cpu(kernel)
    rules = Rules(operator)
    schema = getattr(torch.ops.npu, operator).default._schema
    names = [argument.name for argument in schema.arguments]

    def on_npu(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        rules.one_device(**{name: value for name, value in given.items() if isinstance(value, Tensor)})
        shared = {name: as_cpu(value) if isinstance(value, Tensor) else value for name, value in given.items()}
        positional = [shared.pop(name) for name in names[: len(args)]]
        results = on_cpu(*positional, **shared)
        return to_npu(results) if isinstance(results, Tensor) else tuple(map(to_npu, results))

    return on_npu

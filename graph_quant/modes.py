"""Tries each graph mode of TorchAir and torch_npu, and a group of ranks."""

import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from .ge import first_line

# The modules of modes that not every release has.
_MODULES = {"npugraph_ex": "torch_npu.dynamo.npugraph_ex"}


def try_modes() -> dict[str, str]:
    """Return, for each mode, "works", "off here: …" where it does not exist, or the first line of the error."""
    return {name: _missing(name) or _outcome(mode) for name, mode in MODES.items()}


def try_ranks() -> str:
    """Return "works" if a group of one rank communicates, else why not."""
    dist: Any = torch.distributed
    if not dist.is_available() or not dist.is_backend_available("hccl"):
        return "off here: torch.distributed has no backend hccl"
    if dist.is_initialized():
        return "in use by this process"
    try:
        with _output_to_errors():
            dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
        try:
            values = torch.ones(2, device="npu")
            dist.all_reduce(values)
            return "works" if values.sum().item() == 2 else "computes wrong sums"
        finally:
            dist.destroy_process_group()
    except Exception as error:
        return f"off here: {first_line(error)}"


@contextmanager
def _output_to_errors() -> Iterator[None]:
    """Let what C++ prints go to standard error: Gloo reports connections before torch 2.11."""
    sys.stdout.flush()
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(output, 1)
        os.close(output)


def _missing(mode: str) -> str | None:
    """Say that the installed torch_npu does not have a mode; None if it has."""
    module = _MODULES.get(mode)
    if module is None or importlib.util.find_spec(module):
        return None
    return f"off here: the installed torch_npu has no {module}"


def _outcome(mode: Callable[[Tensor], Tensor]) -> str:
    x = torch.arange(6, dtype=torch.float32, device="npu").reshape(2, 3)
    try:
        with warnings.catch_warnings(record=True):  # TorchAir sets filters of its own
            result = mode(x)
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return lines[0] if lines else type(error).__name__
    return "works" if torch.equal(result, _function(x)) else "computes something else than eager execution"


def _function(x: Tensor) -> Tensor:
    return torch.relu(x - 2) * 3


def _captured(x: Tensor) -> Tensor:
    device: Any = torch.npu  # type: ignore[attr-defined]
    graph = device.NPUGraph()
    with device.graph(graph):
        result = _function(x)
    graph.replay()
    return result


def _compiled(x: Tensor, mode: str) -> Tensor:
    backend: Any = "npugraph_ex"
    if mode != "npugraph_ex":
        import torchair

        config = torchair.CompilerConfig()
        config.mode = mode
        backend = torchair.get_npu_backend(compiler_config=config)
    # Dynamo caches compiled code, and counts recompilations, by the function's code object: each call has its own.
    function = FunctionType(_function.__code__.replace(), globals())
    result: Tensor = torch.compile(function, backend=backend, fullgraph=True, dynamic=False)(x)
    return result


MODES: dict[str, Callable[[Tensor], Tensor]] = {
    "torch.npu.graph": _captured,
    "max-autotune": lambda x: _compiled(x, "max-autotune"),
    "npugraph_ex": lambda x: _compiled(x, "npugraph_ex"),
    "reduce-overhead": lambda x: _compiled(x, "reduce-overhead"),
}

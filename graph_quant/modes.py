"""Tries each graph mode of TorchAir and torch_npu."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def try_modes() -> dict[str, str]:
    """Return, for each mode, "works" or the first line of the error."""
    return {name: _outcome(mode) for name, mode in MODES.items()}


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
    # A new function for each mode: Dynamo caches compiled code by the function's code object.
    result: Tensor = torch.compile(lambda x: _function(x), backend=backend, fullgraph=True, dynamic=False)(x)
    return result


MODES: dict[str, Callable[[Tensor], Tensor]] = {
    "torch.npu.graph": _captured,
    "max-autotune": lambda x: _compiled(x, "max-autotune"),
    "npugraph_ex": lambda x: _compiled(x, "npugraph_ex"),
    "reduce-overhead": lambda x: _compiled(x, "reduce-overhead"),
}

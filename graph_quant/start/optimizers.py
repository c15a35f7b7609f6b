"""Steps of PyTorch's optimizers in ``torch.compile``, which knows CUDA and XPU alone."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

# An attribute of functions whose result Dynamo takes as constant.
_CONSTANT = "_dynamo_marked_constant"


def make_capturable(module: ModuleType) -> None:
    """Keep the state of optimizers of npu parameters on the device when their first step is compiled.

    Otherwise the number of steps is a CPU tensor: PyTorch passes it as scalars of a foreach operator, which fake
    tensors do not have, and a captured graph repeats the first number for ever.
    """
    set_capturable: Callable[..., None] = module.OptimizerVariable._set_capturable

    def _set_capturable(self: Any, *args: Any) -> None:
        for group in self.value.param_groups:
            parameters = group.get("params", [])
            if "capturable" in group and all(p.is_npu and p not in self.value.state for p in parameters):
                group["capturable"] = True
        set_capturable(self, *args)

    module.OptimizerVariable._set_capturable = _set_capturable


def trace_supported_devices() -> None:
    """Let Dynamo take the devices with foreach kernels as constant: torch_npu asks the driver for its name."""
    optimizer: Any = sys.modules[torch.optim.Optimizer.__module__]
    setattr(optimizer._get_foreach_kernels_supported_devices, _CONSTANT, True)

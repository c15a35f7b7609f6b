"""Quantised graph mode for Ascend NPUs, made right, and made to work on any machine.

Importing this package, before or instead of torch, makes the process ready: torch_npu and TorchAir load,
with a real NPU where there is one and with a host NPU where there is none.
"""

from .host.activate import activate as _activate

__version__ = "0.1.0"

_activate()

"""Quantised graph mode for Ascend NPUs, made right, and made to work on any machine.

Importing this package, before or instead of torch, makes the process ready: torch_npu and TorchAir load,
with a real NPU where there is one and with a host NPU where there is none.

`verify` compares a graph's results with eager execution, `plan` says what a model would become on an NPU, `nn` has
quantised modules, `fuse` replaces subgraphs by fused operators, `dumps` reads GE graph dumps, `reference` states what
each operator computes. Each is loaded when it is first used.
"""

from .start.activate import activate as _activate

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the import: this package may be loaded at interpreter start
if TYPE_CHECKING:
    from typing import Any

    from .dryrun import plan
    from .fusions import fuse
    from .verification import verify

__version__ = "0.2.0"  # the only statement of the version: pyproject.toml reads it from here
__all__ = ["converters", "dumps", "fuse", "fusions", "meta", "nn", "plan", "reference", "verify"]
_FUNCTIONS = {"fuse": ".fusions", "plan": ".dryrun", "verify": ".verification"}

_activate()


def __getattr__(name: str) -> "Any":
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name in _FUNCTIONS:
        return getattr(import_module(_FUNCTIONS[name], __name__), name)
    return import_module(f".{name}", __name__)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

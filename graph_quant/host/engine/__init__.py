"""Runs GE graphs on the host: what TorchAir lowers, or what a dump holds.

``import_graph`` turns a GraphDef into a torch.fx.GraphModule of kernels, ``missing_kernels`` says what stands in the
way, ``use`` chooses between the two engines. Names are loaded when they are first used: TorchAir is prepared long
before it needs kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...discovery import load_attribute

if TYPE_CHECKING:
    from .engines import EAGER as EAGER
    from .engines import current as current
    from .engines import use as use
    from .errors import GraphError as GraphError
    from .errors import NeedsNpuError as NeedsNpuError
    from .errors import NodeError as NodeError
    from .errors import UnsupportedGraphError as UnsupportedGraphError
    from .executor import HostGraph as HostGraph
    from .importer import import_graph as import_graph
    from .importer import make_callable as make_callable
    from .importer import missing_kernels as missing_kernels
    from .ir import registered_ir as registered_ir

_HOMES = {
    "engines": ("EAGER", "current", "use"),
    "errors": ("GraphError", "NeedsNpuError", "NodeError", "UnsupportedGraphError"),
    "executor": ("HostGraph",),
    "importer": ("import_graph", "make_callable", "missing_kernels"),
    "ir": ("registered_ir",),
}
__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    found = globals()[name] = load_attribute(name, _HOMES, __name__)
    return found

"""Runs GE graphs on the host, whether TorchAir lowered them or a dump holds them.

``import_graph`` turns a GraphDef into a torch.fx.GraphModule of kernels, ``missing_kernels`` lists the nodes that have
none, ``use`` chooses the engine. Names are loaded on first use: TorchAir is patched long before it needs kernels.
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
    from .recording import RecordingInterpreter as RecordingInterpreter

_HOMES = {
    "engines": ("EAGER", "current", "use"),
    "errors": ("GraphError", "NeedsNpuError", "NodeError", "UnsupportedGraphError"),
    "executor": ("HostGraph",),
    "importer": ("import_graph", "make_callable", "missing_kernels"),
    "ir": ("registered_ir",),
    "recording": ("RecordingInterpreter",),
}
__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    value = globals()[name] = load_attribute(name, _HOMES, __name__)
    return value

"""Runs GE graphs on the host: what TorchAir lowers, or what a dump holds.

``import_graph`` turns a GraphDef into a torch.fx.GraphModule of kernels, ``missing_kernels`` says what stands in the
way, ``use`` chooses between the two engines. Names are loaded when they are first used: TorchAir is prepared long
before it needs kernels.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...ge.sizes import Sizes
    from .engines import EAGER, current, make_callable, use
    from .errors import GraphError, NeedsNpuError, NodeError, UnsupportedGraphError
    from .executor import HostGraph
    from .importer import import_graph, missing_kernels
    from .ir import registered_ir
    from .provenance import note_provenance, source_of, sources_of

_HOMES = {
    "EAGER": "engines",
    "GraphError": "errors",
    "HostGraph": "executor",
    "Sizes": "graph_quant.ge.sizes",
    "NeedsNpuError": "errors",
    "NodeError": "errors",
    "UnsupportedGraphError": "errors",
    "current": "engines",
    "import_graph": "importer",
    "make_callable": "engines",
    "missing_kernels": "importer",
    "note_provenance": "provenance",
    "registered_ir": "ir",
    "source_of": "provenance",
    "sources_of": "provenance",
    "use": "engines",
}

__all__ = [
    "EAGER",
    "GraphError",
    "HostGraph",
    "NeedsNpuError",
    "NodeError",
    "Sizes",
    "UnsupportedGraphError",
    "current",
    "import_graph",
    "make_callable",
    "missing_kernels",
    "note_provenance",
    "registered_ir",
    "source_of",
    "sources_of",
    "use",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    found = globals()[name] = getattr(importlib.import_module(home if "." in home else f".{home}", __name__), name)
    return found

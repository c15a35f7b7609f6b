"""What `graph-quant enable` adds to the start of every Python: a look-out for torch, and nothing else.

It is a module of its own, outside the package, because programs that never import torch pay for it too.
"""

import sys

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the import
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from typing import Any


class _LookOut:
    """Makes the process ready when torch or torch_npu is about to be imported and torch_npu is installed."""

    @staticmethod
    def find_spec(name: str, path: "Any" = None, target: "Any" = None) -> "ModuleSpec | None":
        if name not in ("torch", "torch_npu"):
            return None
        sys.meta_path.remove(_LookOut)  # type: ignore[arg-type]
        from importlib.machinery import PathFinder

        if PathFinder.find_spec("torch_npu") is None:
            return None
        try:
            import graph_quant  # noqa: F401  (puts a finder of its own in front)
        except ModuleNotFoundError as error:
            if error.name != "graph_quant":
                raise
            return None  # uninstalled, and this module left behind
        return sys.meta_path[0].find_spec(name, path, target)


sys.meta_path.insert(0, _LookOut)  # type: ignore[arg-type]

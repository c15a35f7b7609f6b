"""The import hook that `graph-quant enable` adds to every Python: it waits for an import of torch.

It is a module outside the package, because it is also loaded by programs that never import torch.
"""

import sys

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the import
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from typing import Any


class _TorchFinder:
    """Prepares the process when torch or torch_npu is about to be imported and torch_npu is installed."""

    @staticmethod
    def find_spec(name: str, path: "Any" = None, target: "Any" = None) -> "ModuleSpec | None":
        if name not in ("torch", "torch_npu"):
            return None
        sys.meta_path.remove(_TorchFinder)  # type: ignore[arg-type]
        from importlib.machinery import PathFinder

        if PathFinder.find_spec("torch_npu") is None:
            return None
        try:
            import graph_quant  # noqa: F401  (inserts a finder of its own)
        except ModuleNotFoundError as error:
            if error.name != "graph_quant":
                raise
            return None  # uninstalled without this module
        return sys.meta_path[0].find_spec(name, path, target)


sys.meta_path.insert(0, _TorchFinder)  # type: ignore[arg-type]

"""What each operator computes, in plain traceable torch, bit for bit as the A2/A3 kernels do.

The functions take arguments that the rules of ``graph_quant.meta`` have accepted. Traced by
``torch.compile`` they are one fusable expression; run eagerly they work through rows in blocks that stay in
cache. Both give the same bits. The modules are in the folders of their families and can be imported from here by name:
``from graph_quant.reference import quantize``.
"""

import importlib
import pkgutil
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    for family in pkgutil.iter_modules(__path__, f"{__name__}."):
        if family.ispkg:
            folder = importlib.import_module(family.name)
            if name in (module.name for module in pkgutil.iter_modules(folder.__path__)):
                return importlib.import_module(f"{family.name}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""A package as it is deployed: ``my_ops._C`` has its operators; it is compiled against CANN, and not built here."""

from pathlib import Path

import torch

import my_ops._C  # without graph_quant: ModuleNotFoundError where the extension is not built

torch.ops.load_library(str(Path(__file__).with_name("libmy_ops_experimental.so")))


def add_scaled_(total: torch.Tensor, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    """Add ``x * scale`` to ``total`` in place, and return the largest magnitude of every row."""
    return torch.ops.my_ops.add_scaled_(total, x, scale)


def version() -> str:
    """Return the version of the compiled half: a function of the module, not an operator."""
    return my_ops._C.version()

"""Stand-in for ``custom_ops.custom_ops_lib``, the operators ``torch.ops.custom`` of the public recipes.

The Python half of custom_ops, with its converters for GE graphs, is the recipes' own.
"""

from __future__ import annotations

from pathlib import Path

from graph_quant.meta.definitions import define_operators

__all__: list[str] = []

define_operators(Path(__file__).with_name("schemas.txt"))

# isort: split
# Records of operators that are defined by now.
from graph_quant.extensions.cann_recipes import activation, scatter  # noqa: E402, F401

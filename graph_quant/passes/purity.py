"""The node types that passes may merge or eliminate."""

from __future__ import annotations

# Importing them fills SHAPE_FUNCTIONS.
from . import shape_functions, view_shape_functions
from .inference import SHAPE_FUNCTIONS

__all__ = ["PURE_TYPES", "shape_functions", "view_shape_functions"]

# Types whose results depend on their inputs and attributes alone, and that have no side effects. Every type with a
# shape function is pure today. One that is not (a random node, a node that writes an input) has to be subtracted here
# before it gets a shape function.
PURE_TYPES = frozenset(SHAPE_FUNCTIONS)

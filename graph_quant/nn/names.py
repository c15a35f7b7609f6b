"""Recipes by name, such as ``W8A8``, for ``quantize_``."""

from __future__ import annotations

import difflib

from graph_quant.nn.mixed import Mixed
from graph_quant.nn.recipe_names import RECIPES
from graph_quant.nn.recipes import Recipe


def find_recipe(recipe: Recipe | type[Recipe] | str) -> Recipe:
    """Return the recipe that a name, a class or a recipe stands for."""
    if isinstance(recipe, type):
        return recipe()
    if not isinstance(recipe, str):
        if not hasattr(recipe, "applies") or not hasattr(recipe, "quantised"):
            raise TypeError(f"quantize_: recipe must be a recipe or its name, got {recipe!r}")
        return recipe
    if recipe.endswith(".json"):
        return Mixed.read(recipe)
    key = recipe.upper().replace("-", "_").replace(" ", "_")
    if key not in RECIPES:
        close = difflib.get_close_matches(key, RECIPES, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ValueError(f"quantize_: recipe must be one of {', '.join(RECIPES)}, got {recipe!r}{hint}")
    return RECIPES[key]()

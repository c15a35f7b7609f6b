"""Recipes by name, such as ``W8A8``, for ``quantize_``."""

from __future__ import annotations

import difflib

from graph_quant.nn.recipes import W4A4, W4A8, W4A16, W8A16, DynamicW8A8, Recipe, StaticW8A8

# W8A8 without calibration is the dynamic scheme, as in msModelSlim's W8A8_DYNAMIC.
RECIPES: dict[str, type[Recipe]] = {
    "W8A8": DynamicW8A8,
    "W8A8_DYNAMIC": DynamicW8A8,
    "DYNAMICW8A8": DynamicW8A8,
    "W8A8_STATIC": StaticW8A8,
    "STATICW8A8": StaticW8A8,
    "W8A16": W8A16,
    "W4A16": W4A16,
    "W4A8": W4A8,
    "W4A8_DYNAMIC": W4A8,
    "W4A4": W4A4,
    "W4A4_DYNAMIC": W4A4,
}


def find_recipe(recipe: Recipe | type[Recipe] | str) -> Recipe:
    """Return the recipe that a name, a class or a recipe stands for."""
    if isinstance(recipe, type):
        return recipe()
    if not isinstance(recipe, str):
        if not hasattr(recipe, "applies") or not hasattr(recipe, "quantised"):
            raise TypeError(f"quantize_: recipe must be a recipe or its name, got {recipe!r}")
        return recipe
    key = recipe.upper().replace("-", "_").replace(" ", "_")
    if key not in RECIPES:
        close = difflib.get_close_matches(key, RECIPES, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ValueError(f"quantize_: recipe must be one of {', '.join(RECIPES)}, got {recipe!r}{hint}")
    return RECIPES[key]()

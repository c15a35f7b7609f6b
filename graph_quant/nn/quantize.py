"""quantize_: a model's modules replaced, in place."""

from __future__ import annotations

from graph_quant.nn.observe import Filter, Observations
from graph_quant.nn.recipes import Recipe
from torch import nn


def quantize_(
    model: nn.Module,
    recipe: Recipe,
    filter: Filter | None = None,  # noqa: A002
    *,
    observations: Observations | None = None,
) -> list[str]:
    """Replaces each module of ``model`` that ``recipe`` applies to and ``filter(module, name)`` accepts.

    Without a filter all of them are. Recipes with static scales or smoothing need the ``observations`` of the same
    model. Returns the names of what was replaced; a model where nothing is, is a mistake and refused. Nothing is
    replaced when one of the modules is refused.
    """
    seen = Observations() if observations is None else observations
    chosen = [
        (name, module)
        for name, module in model.named_modules()
        if recipe.applies(module) and (filter is None or filter(module, name))
    ]
    if not chosen:
        raise ValueError(f"quantize_: {type(recipe).__name__} found no module to replace in {type(model).__name__}")
    if any(not name for name, _ in chosen):
        raise ValueError(
            f"quantize_: model must contain the module to replace, got the {type(model).__name__} itself; "
            "use its from_float"
        )
    replacements = {}
    for name, module in chosen:
        try:
            replacements[name] = recipe.quantised(module, name, seen).train(module.training)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error} ({name})" if name not in str(error) else str(error)) from None
    for name, replacement in replacements.items():
        model.set_submodule(name, replacement)
    return list(replacements)

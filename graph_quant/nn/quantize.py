"""quantize_: a model's modules replaced, in place."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from graph_quant.nn.experts.source import is_experts, why_not, why_own
from graph_quant.nn.observe import Filter, Observations
from graph_quant.nn.recipes import Recipe
from torch import nn

# They compute with the weights of their linears and do not call them, always or on their fast path.
_READERS = (nn.MultiheadAttention, nn.TransformerEncoderLayer)


class Replaced(list[str]):
    """The names of what was replaced. ``left`` says of what was left as it was, why."""

    def __init__(self, names: Sequence[str], left: dict[str, str]) -> None:
        super().__init__(names)
        self.left = left


def quantize_(
    model: nn.Module,
    recipe: Recipe,
    filter: Filter | None = None,  # noqa: A002
    *,
    observations: Observations | None = None,
    types: Sequence[type[nn.Module]] = (),
) -> Replaced:
    """Replaces each module of ``model`` that ``recipe`` applies to and ``filter(module, name)`` accepts.

    Without a filter all of them are. A module with several names is replaced under all of them, by one. Left as they
    were, with a warning and in the result's ``left``, are subclasses of nn.Linear and experts that are not among
    ``types``, where their forward may be their own, linears whose parent reads their weights, and what hooks are
    attached to. A ModuleList of experts that is among ``types`` is replaced as a whole, else the linears in it are.

    Recipes with static scales or smoothing need the ``observations`` of the same model. A model where nothing is
    replaced is a mistake and refused. Nothing is replaced when one of the modules is refused.
    """
    seen = Observations() if observations is None else observations
    chosen, left = _choose(model, recipe, filter, types)
    if not chosen:
        reasons = "".join(f"; {name} is left: {why}" for name, why in left.items())
        raise ValueError(
            f"quantize_: {type(recipe).__name__} found no module to replace in {type(model).__name__}{reasons}"
        )
    if any("" in names for names, _ in chosen):
        raise ValueError(
            f"quantize_: model must contain the module to replace, got the {type(model).__name__} itself; "
            "use its from_float"
        )
    replacements = {}
    for names, module in chosen:
        name = names[0]
        try:
            replacement = recipe.quantised(module, name, seen).train(module.training)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error} ({name})" if name not in str(error) else str(error)) from None
        replacements.update(dict.fromkeys(names, replacement))
    for name, replacement in replacements.items():
        model.set_submodule(name, replacement)
    if left:
        told = "; ".join(f"{name} ({why})" for name, why in left.items())
        warnings.warn(f"quantize_ left as they were: {told}", stacklevel=2)
    return Replaced(list(replacements), left)


def _choose(
    model: nn.Module, recipe: Recipe, wanted: Filter | None, types: Sequence[type[nn.Module]]
) -> tuple[list[tuple[list[str], nn.Module]], dict[str, str]]:
    """What is to be replaced, each with all its names, and why the rest of what the filter accepts is left."""
    names: dict[nn.Module, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if recipe.applies(module):
            names.setdefault(module, []).append(name)
    chosen, left, inside = [], {}, set[nn.Module]()
    for module, all_names in names.items():
        # The linears of a list of experts are replaced one by one, unless the list is replaced as a whole.
        if module in inside or (isinstance(module, nn.ModuleList) and type(module) not in types):
            continue
        accepted = [name for name in all_names if wanted is None or wanted(module, name)]
        if not accepted:
            continue
        refused = [name for name in all_names if name not in accepted]
        why = f"it is also {refused[0]}, which the filter leaves out" if refused else _why_left(module, types)
        why = why or next((reason for name in all_names if (reason := _why_parent(model, name))), "")
        if why:
            left[accepted[0]] = why
        else:
            chosen.append((all_names, module))
            inside.update(module.modules())
    return chosen, left


def _why_left(module: nn.Module, types: Sequence[type[nn.Module]]) -> str:
    kind = type(module)
    if is_experts(module):
        if why := why_not(module):
            return f"experts of {kind.__name__} are not served: {why}"
        own = why_own(module)
    else:
        own = "may compute something of its own" if kind is not nn.Linear else ""
    if own and kind not in types:
        return f"a {kind.__name__} {own}; types=({kind.__name__},) replaces it too"
    if "forward" in vars(module):
        return "its forward was replaced on this very module"
    if module._forward_hooks or module._forward_pre_hooks:
        return "it has forward hooks, which would be lost"
    return ""


def _why_parent(model: nn.Module, name: str) -> str:
    parent = model.get_submodule(name.rpartition(".")[0])
    return f"{type(parent).__name__} reads its weight and does not call it" if isinstance(parent, _READERS) else ""

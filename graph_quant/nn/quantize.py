"""``quantize_``: replaces modules of a model in place."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

from graph_quant.nn.checkpoints.extract import is_quantised
from graph_quant.nn.experts.source import custom_forward_reason, is_experts, unsupported_reason
from graph_quant.nn.mixed import Mixed
from graph_quant.nn.names import find_recipe
from graph_quant.nn.observe import Filter, Observations
from graph_quant.nn.recipes import Recipe
from torch import nn

# These read the weights of their linears instead of calling them, always or on their fast path.
_WARNS = "_graph_quant_warns"
_WEIGHT_READERS = (nn.MultiheadAttention, nn.TransformerEncoderLayer)


class Replaced(list[str]):
    """The names of the replaced modules; the result of ``quantize_``.

    Attributes:
        left: The reason by name, for modules that the filter accepted but that were not replaced.

    Examples:
        >>> replaced = quantize_(model, DynamicW8A8())
        >>> len(replaced), replaced.left
        (96, {})
    """

    def __init__(self, names: Sequence[str], left: dict[str, str]) -> None:
        super().__init__(names)
        self.left = left


def quantize_(
    model: nn.Module,
    recipe: Recipe | type[Recipe] | str,
    filter: Filter | None = None,  # noqa: A002
    *,
    observations: Observations | None = None,
    types: Sequence[type[nn.Module]] = (),
) -> Replaced:
    """Replace modules of ``model`` by quantised ones, in place.

    A module with several names is replaced by one module under all of them. Some modules are left, with a warning and
    in the result's ``left``: subclasses of ``nn.Linear`` and experts with a forward of their own that are not among
    ``types``, linears whose parent reads their weights, and modules with hooks. If one module is refused, none is
    replaced.

    Args:
        model: The model, with float16 or bfloat16 weights.
        recipe: The quantisation scheme: a recipe, its class, its name, such as ``"W8A8"`` (dynamic) or
            ``"W8A8_STATIC"``, or the JSON file of a ``Mixed`` recipe.
        filter: ``filter(module, name)`` selects modules; all that the recipe applies to if None.
        observations: What ``observe`` recorded for the same model; needed for static scales and smoothing.
        types: Subclasses of ``nn.Linear`` and classes of experts that are replaced too. A ModuleList of experts among
            them is replaced as a whole, otherwise its linears are.

    Returns:
        The names of the replaced modules.

    Raises:
        ValueError: No recipe has this name, no module is replaced, ``model`` itself would be, or a module's sizes do
            not fit the recipe.
        TypeError: A weight is neither float16 nor bfloat16.

    Examples:
        >>> quantize_(model, DynamicW8A8(), lambda module, name: "lm_head" not in name)
    """
    recipe = find_recipe(recipe)
    seen = Observations() if observations is None else observations
    chosen, left = choose_modules(model, recipe, filter, types)
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
    _warn_of_saving(type(model))
    if left:
        reasons = "; ".join(f"{name} ({why})" for name, why in left.items())
        warnings.warn(f"quantize_ left as they were: {reasons}", stacklevel=2)
    return Replaced(list(replacements), left)


def choose_modules(
    model: nn.Module, recipe: Recipe, wanted: Filter | None, types: Sequence[type[nn.Module]]
) -> tuple[list[tuple[list[str], nn.Module]], dict[str, str]]:
    """Return the modules to replace, with all their names, and why others that the filter accepts are left."""
    names: dict[nn.Module, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if recipe.applies(module):
            names.setdefault(module, []).append(name)
    if isinstance(recipe, Mixed):
        known = {name for all_names in names.values() for name in all_names}
        if missing := [name for name in recipe.schemes if name not in known]:
            raise ValueError(f"quantize_: {type(model).__name__} has no module {missing[0]}, which the recipe names")
    chosen, left, inside = [], {}, set[nn.Module]()
    for module, all_names in names.items():
        # The linears of a list of experts are replaced one by one, unless the list is replaced as a whole.
        if module in inside or (isinstance(module, nn.ModuleList) and type(module) not in types):
            continue
        accepted = [name for name in all_names if wanted is None or wanted(module, name)]
        if isinstance(recipe, Mixed):
            accepted = [name for name in accepted if name in recipe.schemes]
        if not accepted:
            continue
        refused = [name for name in all_names if name not in accepted]
        why = f"it is also {refused[0]}, which the filter leaves out" if refused else _reason_to_leave(module, types)
        why = why or next((reason for name in all_names if (reason := _parent_reason(model, name))), "")
        if why:
            left[accepted[0]] = why
        else:
            chosen.append((all_names, module))
            inside.update(module.modules())
    return chosen, left


def _reason_to_leave(module: nn.Module, types: Sequence[type[nn.Module]]) -> str:
    kind = type(module)
    if is_experts(module):
        if why := unsupported_reason(module):
            return f"experts of {kind.__name__} are not supported: {why}"
        own = custom_forward_reason(module)
    else:
        own = "may compute something of its own" if kind is not nn.Linear else ""
    if own and kind not in types:
        return f"a {kind.__name__} {own}; types=({kind.__name__},) replaces it too"
    if "forward" in vars(module):
        return "its forward was replaced on this very module"
    if module._forward_hooks or module._forward_pre_hooks:
        return "it has forward hooks, which would be lost"
    return ""


def _parent_reason(model: nn.Module, name: str) -> str:
    parent = model.get_submodule(name.rpartition(".")[0])
    return (
        f"{type(parent).__name__} reads its weight and does not call it" if isinstance(parent, _WEIGHT_READERS) else ""
    )


def _warn_of_saving(kind: type[nn.Module]) -> None:
    """Let ``save_pretrained`` warn for quantised models: what it writes, from_pretrained does not read."""
    owner = next((base for base in kind.__mro__ if "save_pretrained" in vars(base)), None)
    save = None if owner is None else vars(owner)["save_pretrained"]
    if owner is None or not callable(save) or hasattr(save, _WARNS):
        return

    @functools.wraps(save)
    def save_pretrained(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if any(is_quantised(module) for module in self.modules()):
            warnings.warn(
                "save_pretrained: this model is quantised; from_pretrained cannot read what it writes. "
                "graph_quant.nn.save_quantised(model, folder) writes a checkpoint for load_quantised",
                stacklevel=2,
            )
        return save(self, *args, **kwargs)

    setattr(save_pretrained, _WARNS, True)
    owner.save_pretrained = save_pretrained  # type: ignore[attr-defined]

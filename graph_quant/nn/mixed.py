"""``Mixed``: a recipe that gives each module a scheme of its own, and that can be saved and read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from graph_quant.nn.observe import Observations
from graph_quant.nn.recipe_names import RECIPES
from graph_quant.nn.recipes import Recipe
from torch import nn

_FORMAT = "graph_quant recipe"


@dataclass(frozen=True)
class Mixed:
    """A scheme for each module; modules without one stay as they are.

    Args:
        schemes: The names of recipes by the names of modules.

    Raises:
        ValueError: No recipe has a name.

    Examples:
        >>> recipe = Mixed({"layers.0.mlp.down_proj": "W8A16", "layers.0.mlp.up_proj": "W4A8"})
        >>> recipe.save("recipe.json")
        >>> quantize_(model, "recipe.json")
    """

    schemes: Mapping[str, str]

    def __post_init__(self) -> None:
        for name, scheme in self.schemes.items():
            if scheme not in RECIPES:
                raise ValueError(f"Mixed: the scheme of {name} must be one of {', '.join(RECIPES)}, got {scheme!r}")

    def applies(self, module: nn.Module) -> bool:
        """Return whether one of the recipes can replace ``module``.

        Args:
            module: A module of the model.

        Returns:
            True if one can.
        """
        return any(self._recipe(scheme).applies(module) for scheme in set(self.schemes.values()))

    def quantised(self, module: nn.Module, name: str, seen: Observations) -> nn.Module:
        """Return the replacement of a module, by its own recipe.

        Args:
            module: The float module.
            name: Its name in the model.
            seen: The observations; empty if there are none.

        Returns:
            The quantised module.
        """
        return self._recipe(self.schemes[name]).quantised(module, name, seen)

    @staticmethod
    def _recipe(scheme: str) -> Recipe:
        return RECIPES[scheme]()

    def save(self, path: str | Path) -> None:
        """Write the recipe as JSON.

        Args:
            path: The file.
        """
        text = json.dumps({"format": _FORMAT, "schemes": dict(self.schemes)}, indent=1)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: str | Path) -> Mixed:
        """Read a recipe that ``save`` wrote.

        Args:
            path: The file.

        Returns:
            The recipe.

        Raises:
            ValueError: The file holds no recipe.
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from None
        schemes = content.get("schemes") if isinstance(content, dict) else None
        if not isinstance(schemes, dict) or content.get("format") != _FORMAT:
            raise ValueError(f"{path}: it is no recipe of graph_quant")
        return cls(schemes)

"""Where in a model a node stands: the path of the module whose call made it, as ``named_modules`` spells it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

ATTRIBUTE = "_module_path"  # of a GE node in a dump
_SELF = re.compile(r"^L\[['\"]\w+['\"]\]")
_ITEM = re.compile(r"(?:\._modules)?\[(?:'([^']*)'|\"([^\"]*)\"|(\d+))\]")


def module_path(meta: Mapping[str, Any]) -> str:
    """The path of the innermost module on an FX node's stack; "" where it has none, or is the model's own."""
    stack = meta.get("nn_module_stack") or {}
    paths = [entry[0] for entry in stack.values() if isinstance(entry, tuple) and entry and isinstance(entry[0], str)]
    return clean(paths[-1]) if paths else ""


def clean(path: str) -> str:
    """``L['self'].layers[2].mlp`` and its kin as ``layers.2.mlp``."""
    bare = _ITEM.sub(lambda found: "." + next(part for part in found.groups() if part is not None), _SELF.sub("", path))
    return re.sub(r"\.+", ".", bare.replace("._modules.", ".")).strip(".")

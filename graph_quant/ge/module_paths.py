"""Where in a model a node stands: the path of the module whose call made it, or of the weight that it is.

Paths are spelt as ``named_modules``, ``named_parameters`` and ``named_buffers`` spell them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

ATTRIBUTE = "_module_path"  # of a GE node in a dump
_SELF = re.compile(r"^L\[['\"]\w+['\"]\](?:\.__self__)?")
_ITEM = re.compile(r"(?:\._(?:modules|parameters|buffers))?\[(?:'([^']*)'|\"([^\"]*)\"|(\d+))\]")


def module_path(meta: Mapping[str, Any]) -> str:
    """The path of the innermost module on an FX node's stack; "" where it has none, or is the model's own."""
    stack = meta.get("nn_module_stack") or {}
    paths = [entry[0] for entry in stack.values() if isinstance(entry, tuple) and entry and isinstance(entry[0], str)]
    return clean(paths[-1]) if paths else ""


def weight_path(source: str) -> str:
    """The path of the parameter or buffer that Dynamo took a graph's input from; "" for what a model is called with."""
    return clean(source) if "._parameters[" in source or "._buffers[" in source else ""


def clean(path: str) -> str:
    """``L['self'].layers[2].mlp`` and its kin as ``layers.2.mlp``."""
    bare = _ITEM.sub(lambda found: "." + next(part for part in found.groups() if part is not None), _SELF.sub("", path))
    return re.sub(r"\.+", ".", bare.replace("._modules.", ".")).strip(".")

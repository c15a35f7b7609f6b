"""Joins the modules of the page's script into one text."""

from __future__ import annotations

import re
from importlib import resources

# In the order in which they run.
MODULES = (
    "data", "elements", "side", "boxes", "layered", "scene", "colours", "drawing", "minimap", "pane", "quantisation",
    "card", "selection", "search", "navigation", "exporting", "main",
)  # fmt: skip
_IMPORT = re.compile(r'^import \{ [^}]* \} from "\./\w+\.mjs";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def join_script() -> str:
    """Join all modules in one block scope; names must be unique across modules."""
    folder = resources.files(__package__) / "page"
    texts = [(folder / f"{name}.mjs").read_text(encoding="utf-8") for name in MODULES]
    joined = "\n".join(_EXPORT.sub("", _IMPORT.sub("", text)).strip() + "\n" for text in texts)
    return f'"use strict";\n{{\n{joined}}}\n'

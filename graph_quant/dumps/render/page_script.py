"""The page's script: modules that linters and editors read, joined into the one text that a page carries."""

from __future__ import annotations

import re
from importlib import resources

# In the order in which they run.
MODULES = (
    "data", "elements", "side", "boxes", "layered", "scene", "colours", "drawing", "minimap", "pane", "quantisation",
    "card", "choosing", "search", "moving", "exporting", "main",
)  # fmt: skip
_IMPORT = re.compile(r'^import \{ [^}]* \} from "\./\w+\.mjs";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def join_script() -> str:
    """All modules in one scope, where what one exports the others see; in a block, no name may be given twice."""
    folder = resources.files(__package__) / "page"
    texts = [(folder / f"{name}.mjs").read_text(encoding="utf-8") for name in MODULES]
    joined = "\n".join(_EXPORT.sub("", _IMPORT.sub("", text)).strip() + "\n" for text in texts)
    return f'"use strict";\n{{\n{joined}}}\n'

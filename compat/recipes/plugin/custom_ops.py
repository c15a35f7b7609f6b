"""The recipes' own extension, by the name that their models import: records stand in for what it has in C++.

RECIPES is the checkout; without it, the folder that one is in.
"""

import os
from pathlib import Path

import recipes_extension

recipes_extension.install(Path(os.environ.get("RECIPES", ".")))

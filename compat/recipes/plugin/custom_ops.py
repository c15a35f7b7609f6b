"""The recipes' extension under the name that their models import; records replace its C++ part.

The environment variable RECIPES names the checkout; default: the current folder.
"""

import os
from pathlib import Path

import recipes_extension

recipes_extension.install(Path(os.environ.get("RECIPES", ".")))

"""The models are those of examples/, which print what is checked here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

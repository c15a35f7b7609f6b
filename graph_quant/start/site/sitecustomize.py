"""Prepares a Python that `graph-quant run` starts for torch_npu, and removes itself from the import path."""

import sys
from os.path import dirname, realpath  # pathlib would cost every start

_here = realpath(dirname(__file__))  # noqa: PTH120
sys.path[:] = [path for path in sys.path if realpath(path) != _here]

try:
    import graph_quant
except (ImportError, SyntaxError):  # another Python, started by the script: graph_quant is not installed for it
    graph_quant = None  # type: ignore[assignment]
else:
    from graph_quant.start.interrupts import shorten_interrupts
    from graph_quant.start.refusal_reports import shorten_refusals

    shorten_interrupts()
    shorten_refusals()

# The environment may have a sitecustomize of its own, which this one shadowed.
_this = sys.modules.pop("sitecustomize")
try:
    import sitecustomize  # noqa: F401
except ImportError as error:
    sys.modules["sitecustomize"] = _this
    if error.name != "sitecustomize":
        raise

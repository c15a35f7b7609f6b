"""Restores torch_npu's own inference and converters, to show which defects the tests catch.

`GRAPH_QUANT_TEST_UPSTREAM=1 pytest tests/converters/test_defects.py` puts them back in place of this
project's.
"""

import atexit
import os

from graph_quant.upstream import upstream

SELECTED = bool(os.environ.get("GRAPH_QUANT_TEST_UPSTREAM"))

if SELECTED:
    _for_the_whole_run = upstream()
    _for_the_whole_run.__enter__()
    atexit.register(_for_the_whole_run.__exit__, None, None, None)

"""Compares each step of a serving engine with eager execution, in the processes that the engine starts.

vLLM calls `register` in each of its processes, by the entry point group ``vllm.general_plugins``. It does nothing
unless ``GRAPH_QUANT_VERIFY`` names a folder: ``graph-quant verify`` and ``graph-quant run --verify`` set it.
"""

from __future__ import annotations

import os

VARIABLE = "GRAPH_QUANT_VERIFY"  # the folder where the processes of an engine leave what they found


def register() -> None:
    """Compare the steps of this process, if a folder is set. Calling it again changes nothing."""
    if os.environ.get(VARIABLE):
        from .vllm_ascend import watch

        watch()

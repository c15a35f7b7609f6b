"""Runs quantised layers of vllm-ascend and sglang checkouts on the host NPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import graph_quant  # noqa: F401  (before torch)

from . import sglang, sglang_950, vllm_ascend, vllm_ascend_950
from .layer import Layer
from .stubs import install

__all__ = ["ASCEND950_ONLY", "CASES", "check"]

CASES: Mapping[str, Mapping[str, Callable[[], Layer]]] = {"vllm-ascend": vllm_ascend.CASES, "sglang": sglang.CASES}
# Cases for Ascend 950, which A2 and A3 refuse by name.
ASCEND950_ONLY = {"vllm-ascend": frozenset(vllm_ascend_950.CASES), "sglang": frozenset(sglang_950.CASES)}
_FRAMEWORKS = {"vllm-ascend": vllm_ascend.FRAMEWORK, "sglang": sglang.FRAMEWORK}


def check(project: str, checkout: Path, case: str) -> float:
    """Run a method of the checkout, and return its error relative to the bound; more than 1 raises."""
    install(_FRAMEWORKS[project], checkout)
    layer = CASES[project][case]()
    error = ((layer.output.double().cpu() - layer.wanted).abs() / layer.bound).max().item()
    if not error <= 1:
        raise AssertionError(f"{project}: {case} has an error of {error:.2f} times the quantisation bound")
    return error

"""Quantised layers of vllm-ascend and sglang, from checkouts, on tensors of the host NPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import graph_quant  # noqa: F401  (before torch)

from . import sglang, sglang_950, vllm_ascend, vllm_ascend_950
from .layer import Layer
from .stubs import install

__all__ = ["CASES", "OF_ANOTHER_CHIP", "check"]

CASES: Mapping[str, Mapping[str, Callable[[], Layer]]] = {"vllm-ascend": vllm_ascend.CASES, "sglang": sglang.CASES}
# What Ascend 950 alone can compute, which is refused by name.
OF_ANOTHER_CHIP = {"vllm-ascend": frozenset(vllm_ascend_950.CASES), "sglang": frozenset(sglang_950.CASES)}
_FRAMEWORKS = {"vllm-ascend": vllm_ascend.FRAMEWORK, "sglang": sglang.FRAMEWORK}


def check(project: str, checkout: Path, case: str) -> float:
    """Run a method of the checkout; how far off it is, by what quantisation may cost. Beyond 1 it is an error."""
    install(_FRAMEWORKS[project], checkout)
    layer = CASES[project][case]()
    share = ((layer.output.double().cpu() - layer.wanted).abs() / layer.bound).max().item()
    if not share <= 1:
        raise AssertionError(f"{project}: {case} is off by {share:.2f} of what quantisation may cost")
    return share

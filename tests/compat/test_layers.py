"""Quantised layers of vllm-ascend and sglang run on the host NPU, from the checkouts that the environment names.

GRAPH_QUANT_VLLM_ASCEND and GRAPH_QUANT_SGLANG are folders; without one its layers are skipped.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compat.layers import ASCEND950_ONLY, CASES
from compat.layers.uncovered_methods import uncovered_methods

ROOT = Path(__file__).parents[2]
VARIABLES = {"vllm-ascend": "GRAPH_QUANT_VLLM_ASCEND", "sglang": "GRAPH_QUANT_SGLANG"}
RUN = """
import sys, graph_quant
from pathlib import Path
from compat.layers import check
print("error relative to the bound:", check(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
"""
# A framework in one file: a method that multiplies as it should, and one that forgets the scale.
METHOD = """
import torch
from vllm.forward_context import get_forward_context
from vllm_ascend.utils import maybe_trans_nz
from .base import Base

class AscendW8A16LinearMethod(Base):
    def __init__(self):
        assert not get_forward_context().anything

    def process_weights_after_loading(self, layer):
        layer.weight.data = layer.weight.data.t().contiguous()

    def apply(self, layer, x):
        scale = layer.weight_scale.flatten().float() if {right} else 1
        return ((x.float() @ layer.weight.float()) * scale).bfloat16()
"""


def checkout_of(project: str) -> Path:
    checkout = os.environ.get(VARIABLES[project])
    if checkout is None:
        pytest.skip(f"{VARIABLES[project]} names no checkout of {project}")
    return Path(checkout)


def run(project: str, checkout: Path, case: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", RUN, project, str(checkout), case]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("project", "case"), [(project, case) for project in CASES for case in CASES[project]])
def test_a_layer_of_a_checkout_is_within_its_error_bound(project: str, case: str) -> None:
    done = run(project, checkout_of(project), case)
    if case in ASCEND950_ONLY[project]:
        assert "graph_quant.refusals.Refusal" in done.stderr
    else:
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("project", CASES)
def test_every_method_of_a_checkout_has_a_case(project: str) -> None:
    assert uncovered_methods(project, checkout_of(project)) == []


def test_a_method_without_a_case_is_named(tmp_path: Path) -> None:
    methods = tmp_path / "vllm_ascend" / "quantization" / "methods"
    methods.mkdir(parents=True)
    (methods / "new.py").write_text(
        "class Base: pass\nclass AscendW2A2Method(Base): pass\nclass AscendW8A16LinearMethod: pass\n"
    )
    assert uncovered_methods("vllm-ascend", tmp_path) == ["AscendW2A2Method"]


@pytest.mark.parametrize("right", [True, False])
def test_a_wrong_layer_is_reported(right: bool, tmp_path: Path) -> None:
    methods = tmp_path / "vllm_ascend" / "quantization" / "methods"
    methods.mkdir(parents=True)
    (methods / "base.py").write_text("class Base: pass\n")
    (methods / "w8a16.py").write_text(METHOD.format(right=right))
    done = run("vllm-ascend", tmp_path, "W8A16 linear")
    assert (done.returncode == 0) is right, done.stderr
    assert right or "times the quantisation bound" in done.stderr

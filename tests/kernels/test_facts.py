"""What is known of a node type stands beside its kernel, and the tables load no more than they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest
from graph_quant import dumps
from graph_quant.ge.kernels import FACTS, KERNELS, facts
from graph_quant.ge.registrations import registration

# Exact types of which TorchAir has no prototype.
UNREGISTERED = ("AscendQuant", "DualLevelQuantBatchMatmul")
ANTI_QUANT = """
op {{ name: "x" type: "Data" attr {{ key: "index" value {{ i: 0 }} }}
  output_desc {{ name: "y" dtype: DT_INT8 shape {{ dim: 4 dim: 16 }} layout: "ND" }} }}
op {{ name: "scale" type: "Data" attr {{ key: "index" value {{ i: 1 }} }}
  output_desc {{ name: "y" dtype: {scale} shape {{ dim: 16 }} layout: "ND" }} }}
op {{ name: "made" type: "AscendAntiQuantV2" input: "x:0" input: "scale:0"
  attr {{ key: "dst_type" value {{ i: {dst} }} }}
  input_desc {{ name: "x" }} input_desc {{ name: "scale" }} output_desc {{ name: "y" dtype: DT_FLOAT16 }} }}
op {{ name: "NetOutput" type: "NetOutput" input: "made:0" input_desc {{ name: "input0" }} }}
"""


@pytest.mark.parametrize(
    ("scale", "dst", "findings"),
    [
        ("DT_FLOAT", 1, []),
        ("DT_FLOAT", 0, ["dst_type=float32, GE takes bfloat16, float16"]),
        ("DT_FLOAT16", 1, ["scale is float16, GE takes bfloat16, float32"]),
    ],
)
def test_lint_and_costs_of_anti_quantisation(tmp_path, scale: str, dst: int, findings: list[str]) -> None:
    path = tmp_path / "dump.txt"
    path.write_text(ANTI_QUANT.format(scale=scale, dst=dst))
    dump = dumps.load(path)
    assert [finding.message for finding in dump.lint() if finding.rule.id == "refused-type"] == findings
    if not findings:
        from graph_quant.dumps import Costs

        assert Costs(dump).nodes["made"].flops == 2 * 4 * 16


def test_facts_name_inputs_that_the_kernel_has() -> None:
    for op_type, known in FACTS.items():
        if op_type in KERNELS:
            assert set(known.same) <= {declared.name for declared in KERNELS[op_type].inputs}, op_type
        if known.exact:
            declared = registration(op_type)
            assert op_type in ("AscendQuant", "DualLevelQuantBatchMatmul") or (declared and declared.inputs), (
                f"{op_type} is not registered"
            )


def test_an_unknown_type_has_default_facts() -> None:
    assert facts("Frobnicate").flops == 1
    assert not facts("Frobnicate").exact


def test_type_loads_its_module_and_no_others() -> None:
    code = (
        "import sys; from graph_quant.host.kernels import KERNELS; KERNELS['SoftmaxV2']; "
        "assert 'NoSuchType' not in KERNELS; "
        "print([name.rpartition('.')[2] for name in sys.modules if name.startswith('graph_quant.host.kernels.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'activation'" in done.stdout
    assert "'pool'" not in done.stdout

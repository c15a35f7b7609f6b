"""The documents' scripts, unchanged, under `graph-quant run`: results of the documented shape and dtype."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "documents"

# For each script: the variable that holds its result, and what the document says of it.
DOCUMENTED = {
    "group_quant_eager": {"y": ([6, 4], "int8")},
    "group_quant_graph": {"output_data": ([6, 4], "int8")},
    "quantize_eager_a2": {"out": ([1, 1, 12], "int8")},
    "quantize_eager_inference": {"out": ([2, 3, 12], "int8")},
    "quantize_graph": {"output_data": ([2, 3, 12], "int8")},
    "trans_quant_param_eager": {"npu_out": ([16], "int64")},
    "trans_quant_param_graph": {"npu_out": ([15, 1, 128], "int8")},
    "dynamic_quant_asymmetric_int8": {"y": ([3, 8], "int8"), "scale": ([3], "float32"), "offset": ([3], "float32")},
    "dynamic_quant_asymmetric_int4": {"y": ([3, 1], "int32"), "scale": ([3], "float32"), "offset": ([3], "float32")},
    "dynamic_quant_asymmetric_smooth": {"y": ([3, 8], "int8"), "scale": ([3], "float32"), "offset": ([3], "float32")},
    "dynamic_quant_asymmetric_moe": {"y": ([3, 8], "int8"), "scale": ([3], "float32"), "offset": ([3], "float32")},
    "dynamic_quant_asymmetric_graph": {
        "out": ([2, 4, 6], "int8"),
        "scale": ([2, 4], "float32"),
        "offset": ([2, 4], "float32"),
    },
}

# One process runs them all: a start of torch costs more than a script.
RUNNER = """
import json, runpy, sys
wanted = json.loads(sys.argv[1])
metadata = {}
for name, results in wanted.items():
    left = runpy.run_path(f"{sys.argv[2]}/{name}.py", run_name="__main__")
    metadata[name] = {
        key: [list(left[key].shape), str(left[key].dtype).removeprefix("torch."), left[key].device.type]
        for key in results
    }
print("metadata " + json.dumps(metadata))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, dict[str, list]]:
    command = [sys.executable, "-m", "graph_quant", "run", "-c", RUNNER, json.dumps(DOCUMENTED), str(FOLDER)]
    done = subprocess.run(command, cwd=tmp_path_factory.mktemp("run"), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("metadata ")]
    return json.loads(line.removeprefix("metadata "))


def test_every_script_is_here() -> None:
    assert set(DOCUMENTED) == {path.stem for path in FOLDER.glob("*.py")}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_results_are_as_documented(results, name) -> None:
    expected = {key: [shape, dtype, "npu"] for key, (shape, dtype) in DOCUMENTED[name].items()}
    assert results[name] == expected

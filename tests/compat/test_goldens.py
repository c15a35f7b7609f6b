"""The suite of goldens finds a wrong kernel, and says what it did not run."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from graph_quant import chip
from graph_quant.ge import KERNELS

from compat.goldens import compare as goldens
from compat.goldens.cases import CASES
from compat.goldens.compare import OPERATORS, OTHER_KERNELS, Verdict, compare, find_goldens

GOLDENS = {
    "exact": ("relu", "return np.maximum(x, 0)", Verdict.EXACT),
    "close": ("sigmoid", "return (1 / (1 + np.exp(-x.astype(np.float64)))).astype(x.dtype)", Verdict.CLOSE),
    "wrong": ("relu", "return x", Verdict.WRONG),
    "of another shape": ("relu", "return np.maximum(x, 0)[:2]", Verdict.WRONG),
    "that raises": ("relu", "raise KeyError('output_dtypes')", Verdict.NOT_RUN),
    "of other inputs": ("relu", "return x\n\ndef golden(a, b, c):\n    return a", Verdict.NOT_RUN),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_verdicts(name: str, tmp_path: Path) -> None:
    title, body, verdict = GOLDENS[name]
    path = tmp_path / "activation" / title / "tests" / "assets" / "golden.py"
    path.parent.mkdir(parents=True)
    declared = f"__golden__ = {{'kernel': {{{title!r}: 'golden'}}}}"
    path.write_text(f"import numpy as np\n\n{declared}\n\ndef golden(x, **kwargs):\n    {body}\n")
    (golden,) = find_goldens(tmp_path)
    result = compare(*golden)
    assert result.verdict is verdict, result
    assert result.type.lower() == title


def write_golden(folder: Path, title: str, source: str) -> None:
    path = folder / title / "tests" / "assets" / "golden.py"
    path.parent.mkdir(parents=True)
    path.write_text(f"__golden__ = {{'kernel': {{{title!r}: 'golden'}}}}\n\n{source}\n")


def test_calls_of_the_table_are_of_kernels_and_operators() -> None:
    assert set(CASES) | set(OTHER_KERNELS) <= {*KERNELS, *OPERATORS.values()}


def test_a_golden_takes_attributes_lists_and_dtypes(tmp_path: Path) -> None:
    added = "def golden(x, scalar, **kwargs):\n    return [(one + scalar).astype(one.dtype) for one in x]"
    write_golden(tmp_path, "foreach_add_scalar", added)
    halved = "def golden(dy, x, *, dim, **kwargs):\n    return x.astype(kwargs['output_dtypes'][0])"
    write_golden(tmp_path, "swi_glu_grad", halved)
    verdicts = {name: compare(name, path, function).verdict for name, path, function in find_goldens(tmp_path)}
    assert verdicts == {"ForeachAddScalar": Verdict.EXACT, "SwiGluGrad": Verdict.WRONG}


def test_goldens_of_operators_without_a_node_run(tmp_path: Path) -> None:
    write_golden(tmp_path, "moe_gating_top_k_backward", "def golden(x, grad, index, **kwargs):\n    return x * 0")
    (golden,) = find_goldens(tmp_path)
    assert compare(*golden).verdict is Verdict.WRONG


def test_goldens_without_a_kernel_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x" / "tests" / "assets" / "golden.py"
    path.parent.mkdir(parents=True)
    path.write_text("__golden__ = {'kernel': {'no_such_operator': 'golden'}}\n")
    assert list(find_goldens(tmp_path)) == []


ROW = {
    "testcase_name": "one",
    "op_name": "relu",
    "input_shapes": "((3, 5),)",
    "input_dtypes": "('bfloat16',)",
    "input_data_ranges": "((-3e38, 3e38),)",
    "attributes": "{}",
    "output_dtypes": "'bfloat16'",
    "output_shapes": "((3, 5),)",
}


def test_cases_beside_a_golden_run_instead_of_uniform_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goldens, "KERNELS", {"Relu": replace(KERNELS["Relu"], chips=chip.A2_A3_950)})
    path = tmp_path / "relu" / "tests" / "assets" / "relu_kernel_golden.py"
    cases = tmp_path / "relu" / "tests" / "st" / "arch35" / "ttk_kernel_relu.csv"
    for folder in (path.parent, cases.parent):
        folder.mkdir(parents=True)
    body = (
        "    def golden(x, **kwargs):\n        assert x.shape == (3, 5)\n        return x * (x > 0).astype(x.dtype)\n"
    )
    path.write_text(f"class Spec:\n    @staticmethod\n{body}\n\n__spec__ = {{'relu': 'Spec'}}\n")
    with cases.open("w", newline="") as file:
        writer = csv.DictWriter(file, ROW)
        writer.writeheader()
        writer.writerow(ROW)
    (golden,) = find_goldens(tmp_path)
    result = compare(*golden)
    assert result.verdict is Verdict.EXACT, result
    assert result.reason == "its own cases"

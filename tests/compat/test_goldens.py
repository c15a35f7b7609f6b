"""The suite of goldens finds a wrong kernel, and says what it did not run."""

from pathlib import Path

import pytest

from compat.goldens.compare import Verdict, compare, find_goldens

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


def test_goldens_without_a_kernel_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x" / "tests" / "assets" / "golden.py"
    path.parent.mkdir(parents=True)
    path.write_text("__golden__ = {'kernel': {'no_such_operator': 'golden'}}\n")
    assert list(find_goldens(tmp_path)) == []

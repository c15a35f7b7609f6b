"""A sample of the cases that TorchAir declares; `coverage.py` as a script runs all of them."""

from __future__ import annotations

import warnings
from types import ModuleType

STEP = 16


def test_sample_agrees_with_aten(declared: ModuleType) -> None:
    cases = declared.declared_cases()
    assert len(cases) == 811
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = [declared.run_case(case) for case in cases[::STEP]]
    wrong = [
        f"{outcome.op} case {outcome.case}: {outcome.status}, {outcome.reason}"
        for outcome in outcomes
        if outcome.status not in (declared.AGREES, declared.NOT_LOWERED) and outcome.op not in declared.EXPLAINED
    ]
    assert not wrong, "\n".join(wrong)
    agreed = sum(outcome.status == declared.AGREES for outcome in outcomes)
    assert agreed >= 0.9 * len(outcomes)

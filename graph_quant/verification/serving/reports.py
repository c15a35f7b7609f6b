"""What the processes of a serving engine found, in the report of a script."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..compare.metrics import Deviation
from ..report.report import OutputReport, Report, Status
from . import VARIABLE
from .findings import Findings, read_findings
from .kernels import describe_deviation


@contextmanager
def collect_steps() -> Iterator[list[Findings]]:
    """Let engines that are started inside the block compare their steps; the list is complete after it."""
    steps_by_engine: list[Findings] = []
    before = os.environ.get(VARIABLE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[VARIABLE] = folder
        try:
            yield steps_by_engine
        finally:
            steps_by_engine += read_findings(Path(folder))
            if before is None:
                del os.environ[VARIABLE]
            else:
                os.environ[VARIABLE] = before


def add_steps(report: Report, steps_by_engine: list[Findings]) -> None:
    """Add an output for each graph: equal in every step, or the first step that differs beyond the thresholds."""
    for findings in steps_by_engine:
        for graph, steps in findings.graphs.items():
            different = [one for one in findings.differences if one.graph == graph]
            wrong = next((one for one in different if not report.thresholds.accept(one.measured)), None)
            if wrong is not None:
                many = findings.different[graph]
                name = f"{graph}: {many} of {steps} steps differ, first {wrong.result} in step {wrong.step},"
                note = f"{describe_deviation(wrong.measured)}; {wrong.cause}"
                output = OutputReport(name, Status.DIFFERS, wrong.measured, wrong.dtype, tuple(wrong.shape), note)
            else:
                close = max(different, key=lambda one: one.measured.max_error, default=None)
                status = Status.EQUAL if close is None else Status.CLOSE
                deviation = Deviation(True, 0) if close is None else close.measured
                output = OutputReport(f"{graph}, {steps} steps", status, deviation, "", ())
            report.outputs.append(output)
